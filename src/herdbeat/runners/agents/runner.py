"""Runs agents: the CLI of a preset in a process group of its own, its output read while it comes."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.domain.agent_run import AgentReport, FinishReason
from herdbeat.domain.agent_tools import RunReport
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus, add_report
from herdbeat.domain.target import AgentSpec, OnDenied, ToolMode
from herdbeat.errors import StoreUnavailable
from herdbeat.redaction import is_distinctive, is_secret_name, redact_known, redact_known_data, register_secrets
from herdbeat.runners.agents.accounts import default_account
from herdbeat.runners.agents.invocation import AgentInvocation, build_argv, request_from_spec
from herdbeat.runners.agents.output import AgentOutput, MetadataFile, locate_metadata, read_metadata
from herdbeat.runners.agents.own_tools import RUN_TOKEN_VARIABLE, add_note, apply_report, merge_run_report
from herdbeat.runners.agents.parsers import open_parser
from herdbeat.runners.agents.presets import MAX_ARGUMENT_BYTES, McpFormat, Preset, PromptChannel, resolve_preset
from herdbeat.runners.agents.recorder import AgentRecorder
from herdbeat.runners.agents.scratch import open_scratch, write_files
from herdbeat.runners.base import Job, attach_report, attached_report
from herdbeat.runners.process.output import TailBuffer
from herdbeat.runners.process.program import (
    PlainPreparer,
    Program,
    ProgramPreparer,
    SpawnFailed,
    effective_isolation,
)
from herdbeat.runners.process.reaper import Reaper
from herdbeat.runners.process.runner import ProgramRunner
from herdbeat.runners.run_log import RawOutput, RunLog
from herdbeat.runners.settings import RunnerSettings
from herdbeat.threads import call_in_thread

MAX_PROMPT_CHARS = 256 * 1024
"""As much of a prompt is kept with its run."""
MAX_SUMMARY_CHARS = 200
MAX_LINE_BYTES = 4 * 1024 * 1024
"""A longer line of a CLI is left out. A line is parsed in one step, and 16 MiB of small numbers took a second."""
_READ_REPORT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One start of the CLI, and how it ended."""

    report: AgentReport
    status: int
    tail: str
    response: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolOffer:
    """Our MCP server for one run, and the agent's own note; empty if it is not offered."""

    server: Mapping[str, object] | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    note: str = ""


class AgentRunner:
    """Runs agents by their CLI. `preparer` surrounds their programs."""

    def __init__(
        self, settings: RunnerSettings, reaper: Reaper, clock: Clock, preparer: ProgramPreparer | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._preparer = preparer or PlainPreparer()
        self._programs = ProgramRunner(settings, reaper, clock)

    async def run(self, job: Job) -> Outcome:
        """Run the CLI. Success is what the CLI says, and not its exit code alone.

        Cancelled, it ends the CLI with everything that it started; the CancelledError then carries the report.
        """
        spec = job.target.spec
        assert isinstance(spec, AgentSpec)
        preset = resolve_preset(spec)
        if preset is None:
            return Outcome(status=RunStatus.FAILED, error=f'There is no runtime "{spec.runtime}". Correct `runtime`.')
        with self._programs.open_log(job) as run_log:
            try:
                offer = await self._offer_own_tools(job, spec, preset, run_log)
                job = replace(job, prompt=add_note(job.prompt, offer.note)) if offer.note else job
                attempt = await self._run_cli(job, spec, preset, run_log, offer)
            except SpawnFailed as error:
                run_log.note(str(error))
                return error.to_outcome()
            except asyncio.CancelledError as error:
                await self._keep_run_report(job, run_log, error)
                raise
            run_report = await self._read_run_report(job, offer, run_log)
        return redact_outcome(apply_report(_to_outcome(attempt), run_report))

    async def wait_stopped(self, run_id: int) -> str:
        """Return at once: `run` does not return before the CLI has ended."""
        return self._programs.pop_survivors(run_id)

    async def _offer_own_tools(self, job: Job, spec: AgentSpec, preset: Preset, run_log: RunLog) -> _ToolOffer:
        """Return how the CLI reaches our MCP server. The log says so if it should, and cannot."""
        tools, policy = self._settings.own_tools, job.run_spec.tool_policy or spec.tool_policy
        is_denied = policy is not None and policy.mode is ToolMode.DENY_ALL
        if tools is None or is_denied or preset.mcp is McpFormat.NONE:
            return _ToolOffer()
        grant = await tools.ledger.grant(job.claim.run_id)
        own = tools.describe_server(effective_isolation(job), grant.token)
        if own.server is None:
            run_log.note(f"the agent is not offered the tools of herdbeat, such as wake_me: {own.obstacle}")
            return _ToolOffer(note=grant.note)
        return _ToolOffer(server=own.server, token=grant.token, note=grant.note)

    async def _read_run_report(self, job: Job, offer: _ToolOffer, run_log: RunLog) -> RunReport | None:
        """Return what the agent has reported through our tools. Its run does not fail if the ledger is away."""
        return await self._read_report(job, run_log) if offer.server is not None else None

    async def _keep_run_report(self, job: Job, run_log: RunLog, error: asyncio.CancelledError) -> None:
        """Add what the agent has reported to the report that a cancellation carries: a timeout does not undo it."""
        report = attached_report(error)
        run_report = await self._read_report(job, run_log) if report is not None else None
        if report is not None and run_report is not None:
            attach_report(error, redact_report(merge_run_report(report, run_report)))

    async def _read_report(self, job: Job, run_log: RunLog) -> RunReport | None:
        tools = self._settings.own_tools
        if tools is None:
            return None
        try:
            async with asyncio.timeout(_READ_REPORT_S):
                return await tools.ledger.read_report(job.claim.run_id)
        except (StoreUnavailable, TimeoutError) as error:
            run_log.note(f"what the agent reported could not be read: {error}")
            return None

    async def _run_cli(self, job: Job, spec: AgentSpec, preset: Preset, run_log: RunLog, offer: _ToolOffer) -> _Attempt:
        """Run the CLI, a second time in a new session if it does not know the one to resume."""
        for name in spec.env:
            if name not in self._settings.environ:
                run_log.note(f"{name} is listed in env, but is not set in the environment of the node")
        self._register_logins(spec, preset)
        if excess := _describe_excess(preset, job.prompt):
            raise SpawnFailed(excess)
        if job.run_spec.resume_session and job.session_id is None:
            run_log.note("there is no session to resume, or another run uses it: the run starts in a new one")
        attempt = await self._start(job, spec, preset, run_log, offer)
        if attempt.report.reason is FinishReason.UNKNOWN_SESSION and job.session_id and not attempt.report.tool_called:
            run_log.note(f"{preset.name} does not know the session {job.session_id}: the run starts in a new one")
            attempt = await self._start(replace(job, session_id=None), spec, preset, run_log, offer)
        return attempt

    def _register_logins(self, spec: AgentSpec, preset: Preset) -> None:
        """Hide the values of its logins in all that is recorded: an agent may print its own environment."""
        names = (*preset.login_variables, *(name for name in spec.env if is_secret_name(name)))
        values = ((name, self._settings.environ.get(name, "")) for name in names)
        register_secrets(value for name, value in values if is_distinctive(value, name))

    async def _start(self, job: Job, spec: AgentSpec, preset: Preset, run_log: RunLog, offer: _ToolOffer) -> _Attempt:
        settings, run = self._settings, format_short_id(job.claim.run_id)
        with open_scratch(settings.state_dir, run) as scratch:
            invocation = _build_invocation(job, spec, preset, scratch, settings, offer)
            for warning in invocation.warnings:
                run_log.note(warning)
            write_files(settings.state_dir, scratch, invocation.files)
            program = _build_program(invocation, preset, settings.folder(spec.working_directory), str(scratch))
            async with self._preparer.prepare(job, program, run_log) as prepared:
                metadata = locate_metadata(prepared.folder, spec.metadata_file)
                output = self._open_output(job, spec, preset, run_log)
                try:
                    status = await self._programs.run_into(job, prepared, run_log, output)
                except asyncio.CancelledError as error:
                    attach_report(error, self._finish(job, spec, preset, output, None))
                    raise
                report = self._finish(job, spec, preset, output, status)
                response = await self._read_response(metadata)
        return _Attempt(report=report, status=status, tail=output.tail.text(), response=response)

    def _open_output(self, job: Job, spec: AgentSpec, preset: Preset, run_log: RunLog) -> AgentOutput:
        settings = self._settings
        return AgentOutput(
            parser=open_parser(
                preset.parser,
                settings.zone,
                error_line=preset.error_line,
                notice_line=preset.notice_line,
                max_line_bytes=MAX_LINE_BYTES,
            ),
            recorder=AgentRecorder(
                model=spec.model or "",
                usage_is_cumulative=preset.usage_is_cumulative,
                fails_when_denied=(job.run_spec.on_denied or spec.on_denied) is OnDenied.FAIL,
            ),
            log=run_log,
            raw=RawOutput(settings.state_dir, job.claim.run_id, self._clock, settings.log_cap),
            clock=self._clock,
            tail=TailBuffer(settings.output_cap),
            deadline=job.deadline,
        )

    def _finish(
        self, job: Job, spec: AgentSpec, preset: Preset, output: AgentOutput, status: int | None
    ) -> AgentReport:
        account = job.run_spec.account or spec.account
        report = replace(
            output.finish(status),
            account=account or default_account(preset, {**self._settings.environ, **spec.env_values}),
            runtime=preset.name,
            prompt=job.prompt[:MAX_PROMPT_CHARS],
            resumed=job.session_id is not None and preset.can_resume,
        )
        return redact_report(report)

    async def _read_response(self, metadata: MetadataFile | None) -> object:
        if metadata is None:
            return None
        return await call_in_thread(read_metadata, metadata, self._settings.response_cap)


def _build_invocation(
    job: Job, spec: AgentSpec, preset: Preset, scratch: Path, settings: RunnerSettings, offer: _ToolOffer
) -> AgentInvocation:
    program = spec.program
    request = request_from_spec(
        spec,
        job.prompt,
        str(scratch),
        program=settings.folder(program) if program is not None and os.sep in program else program,
        tool_policy=job.run_spec.tool_policy,
        budget_usd=_get_run_budget(job),
        extra_dirs=tuple(map(settings.folder, spec.extra_dirs)),
        session_id=job.session_id,
        own_server=offer.server,
    )
    invocation = build_argv(preset, request)
    if not offer.token:
        return invocation
    return replace(invocation, env={**invocation.env, RUN_TOKEN_VARIABLE: offer.token})


def _describe_excess(preset: Preset, prompt: str) -> str:
    """Return what is wrong with a prompt that the CLI cannot take; empty if it can."""
    size = len(prompt.encode("utf-8", "replace"))
    limit = MAX_ARGUMENT_BYTES if preset.prompt is PromptChannel.ARGUMENT else preset.max_prompt_bytes
    if limit is None or size <= limit:
        return ""
    return f"The prompt has {size:,} bytes, and {preset.name} takes at most {limit:,}. Shorten it."


def _get_run_budget(job: Job) -> float | None:
    """Return what one run may cost: as the schedule says, else as the agent says."""
    budgets = (job.claim.plan.policies.budget, job.target.budget)
    return next((each.usd_per_run for each in budgets if each is not None and each.usd_per_run is not None), None)


def _build_program(invocation: AgentInvocation, preset: Preset, folder: str, scratch: str) -> Program:
    return Program(
        argv=invocation.argv,
        folder=folder,
        stdin=invocation.stdin or b"",
        env=invocation.env,
        env_names=(*preset.login_variables, *preset.inherited_env),
        unset_env=invocation.unset_env,
        interrupts_first=True,
        ends_all=True,
        scratch_dir=scratch,
    )


def redact_report(report: AgentReport) -> AgentReport:
    """Return the report without the registered secrets: an agent may repeat what it was given."""
    return replace(
        report,
        message=redact_known(report.message),
        answer=redact_known(report.answer),
        prompt=redact_known(report.prompt),
        needs_you=tuple(map(redact_known, report.needs_you)),
        steps=tuple(replace(step, detail=redact_known(step.detail)) for step in report.steps),
        told=None if report.told is None else _redact_run_report(report.told),
    )


def _redact_run_report(run_report: RunReport) -> RunReport:
    metrics = redact_known_data(dict(run_report.metrics))
    assert isinstance(metrics, dict)
    return replace(
        run_report,
        summary=redact_known(run_report.summary),
        needs_you=redact_known(run_report.needs_you),
        metrics=metrics,
    )


def redact_outcome(outcome: Outcome) -> Outcome:
    """Return the outcome whose report has no registered secrets, also in what the agent reported."""
    return outcome if outcome.agent is None else replace(outcome, agent=redact_report(outcome.agent))


def _to_outcome(attempt: _Attempt) -> Outcome:
    report, status = attempt.report, attempt.status
    outcome = Outcome(
        status=RunStatus.SUCCEEDED if report.ok else RunStatus.FAILED,
        code=status if status >= 0 else 128 - status,
        error="" if report.ok else report.message,
        output=attempt.tail,
        response=attempt.response,
        summary=_summarize(report.answer),
    )
    return add_report(outcome, report)


def _summarize(answer: str) -> str:
    line = answer.strip().partition("\n")[0].strip()
    return line if len(line) <= MAX_SUMMARY_CHARS else line[: MAX_SUMMARY_CHARS - 1] + "…"
