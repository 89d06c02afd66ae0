"""One tiny run of an agent with its own settings, outside the ledger: whether it starts, and what comes back."""

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.clock import Clock
from herdbeat.config.files import read_environment
from herdbeat.domain.agent_run import FinishReason
from herdbeat.domain.decision import Source
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec, Target
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.durations import format_duration
from herdbeat.errors import NotFound, UsageError
from herdbeat.runners.agents.presets import Preset, resolve_preset
from herdbeat.runners.base import Job, attached_report
from herdbeat.runners.registry import open_runners
from herdbeat.runners.run_log import LogStream, find_log, read_log
from herdbeat.runners.settings import RunnerSettings
from herdbeat.triggers import Manual

TRIAL_PROMPT = "Answer with the one word: ready. Use no tools."
MAX_TRIAL_TIME = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTrial:
    """What came back. `notes` are what herdbeat said in the log of the run; `fix` is empty after a success."""

    target: str
    runtime: str
    program: str
    took: timedelta
    outcome: Outcome
    notes: tuple[str, ...]
    fix: str

    @property
    def ok(self) -> bool:
        return self.outcome.status is RunStatus.SUCCEEDED


async def try_agent(
    fleet: Fleet,
    name: str,
    environ: Mapping[str, str],
    clock: Clock,
    zone: tzinfo,
    *,
    prompt: str = TRIAL_PROMPT,
    max_time: timedelta = MAX_TRIAL_TIME,
) -> AgentTrial:
    """Run the agent once, in its folder and with its settings. Nothing is recorded.

    Raises NotFound if there is no such target, and UsageError if it is no agent with a CLI.
    """
    target, spec, preset = _find_agent(fleet, name)
    environ = read_environment(fleet.home, environ)
    with tempfile.TemporaryDirectory(prefix="herdbeat-agent-test-") as folder:
        settings = RunnerSettings(state_dir=Path(folder), environ=environ, home=Path(fleet.home), zone=zone)
        job, began_at = _build_job(target, prompt, clock.now(), max_time), clock.now()
        async with open_runners(settings, clock) as runners:
            try:
                async with asyncio.timeout(max_time.total_seconds()):
                    outcome = await runners.run(job)
            except TimeoutError as error:
                message = f"there was no answer within {format_duration(max_time)}"
                outcome = Outcome(status=RunStatus.TIMED_OUT, error=message, agent=attached_report(error))
        return AgentTrial(
            target=target.name,
            runtime=preset.name,
            program=spec.program or preset.program,
            took=clock.now() - began_at,
            outcome=outcome,
            notes=_read_notes(settings.state_dir, job.claim.run_id),
            fix="" if outcome.status is RunStatus.SUCCEEDED else suggest_fix(preset, outcome),
        )


def suggest_fix(preset: Preset, outcome: Outcome) -> str:
    """Return what a person can do about a failed trial."""
    if outcome.agent is None:
        if "PATH" in outcome.error and preset.install_hint:
            return f"{preset.install_hint} Or write its path as program:."
        return "Correct the settings of the agent."
    match outcome.agent.reason:
        case FinishReason.AUTH_FAILED:
            variables = " or ".join(preset.login_variables)
            login = preset.login_hint or "Log in with its own command."
            return f"{login} Or set {variables}." if variables else login
        case FinishReason.RATE_LIMITED:
            return "Wait for the reset; herdbeat waits automatically and starts its runs then."
        case FinishReason.TIMED_OUT | FinishReason.INTERRUPTED:
            return "Check its network and its login. Some CLIs wait for a limit without a word."
        case FinishReason.MAX_TURNS | FinishReason.BUDGET_EXHAUSTED:
            return "Raise max_turns or budget.usd_per_run."
        case FinishReason.API_ERROR:
            return "Try again later; the service reported an error."
        case _:
            return "The log above has what it printed. Run the program yourself with the same settings."


def _find_agent(fleet: Fleet, name: str) -> tuple[Target, AgentSpec, Preset]:
    target = fleet.target(name)
    agents = [each.name for each in fleet.targets if isinstance(each.spec, AgentSpec)]
    listed = f"Agents: {', '.join(agents) or 'none'}."
    if target is None:
        raise NotFound(f'There is no agent "{name}".', hint=listed)
    spec = target.spec
    if not isinstance(spec, AgentSpec) or spec.runtime == COMMAND_RUNTIME:
        hint = f"{listed} Run it with: herdbeat run {name}"
        raise UsageError(f'"{name}" is not an agent that runs a CLI.', hint=hint)
    preset = resolve_preset(spec)
    if preset is None:
        raise UsageError(f'"{name}" has a runtime that cannot be used.', hint="See: herdbeat validate")
    return target, spec, preset


def _build_job(target: Target, prompt: str, now: datetime, max_time: timedelta) -> Job:
    policies = Policies(zone=ZoneInfo("UTC"), timeout=max_time, catchup=Catchup.SKIP)
    claim = Claim(
        run_id=1,
        beat_id=1,
        schedule_id=1,
        target_id=1,
        label=f"{target.name}/test",
        dedup_id=f"manual:{now.astimezone(UTC).isoformat()}",
        due_at=now,
        source=Source.MANUAL,
        attempt=1,
        revision=1,
        plan=ScheduleSpec(trigger=Manual(), policies=policies),
    )
    return Job(claim=claim, target=target, prompt=prompt, deadline=now + max_time)


def _read_notes(state_dir: Path, run_id: int) -> tuple[str, ...]:
    path = find_log(state_dir, run_id)
    lines = read_log(path) if path is not None else []
    return tuple(line.text for line in lines if line.stream in (LogStream.NOTE, LogStream.ERR))
