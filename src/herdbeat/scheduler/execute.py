"""Execute one run, from claim to outcome: render the prompt, run the target, and return how it ended."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol, TypeVar

from herdbeat.clock import Clock
from herdbeat.domain.agent_run import AgentReport, FinishReason
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.manual_request import ManualRequest
from herdbeat.domain.references import escape_data, escape_references
from herdbeat.domain.run import Claim, Outcome, RunStatus, add_report
from herdbeat.domain.schedule import RunSpec, Schedule
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec, CommandSpec, Target
from herdbeat.domain.trigger import is_chat_id, is_event_id, is_manual_id, is_webhook_id
from herdbeat.domain.work_item import WorkItem
from herdbeat.durations import format_duration
from herdbeat.errors import ClaimLost, HerdbeatError, StoreUnavailable
from herdbeat.failpoints import Failpoint, failpoint
from herdbeat.prompts import FALLBACK_PROMPT, build_event_values, build_schedule_prompt, render_static_prompt, to_text
from herdbeat.redaction import redact, redact_known, redact_known_data
from herdbeat.runners.base import (
    Job,
    PrecheckResult,
    Runner,
    Unstarted,
    attached_report,
    find_unstarted,
    mark_unstarted,
)
from herdbeat.scheduler.admission import USER_INITIATED
from herdbeat.scheduler.remote import RemoteRuns
from herdbeat.scheduler.sessions import TakeSession, no_session
from herdbeat.scheduler.timers import RunTimeouts
from herdbeat.scheduler.work import WorkFetcher
from herdbeat.store.base import FinishedRun
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

T = TypeVar("T")

RunPrecheck = Callable[[Job], Awaitable[PrecheckResult]]
"""Runs the precheck of a schedule."""

FindObstacle = Callable[[Job], Awaitable[Outcome | None]]
"""Returns why a target cannot start on this machine; None if nothing is in its way."""

LoadRunner = Callable[[Job], Awaitable[None] | None]
"""Loads the program parts that a run needs; None if they are loaded. It is the node's time, and not the run's."""

_MESSAGE_TEMPLATE = "Answer this message:\n\n{{message.text}}"
"""What a chat prompt ends with if it does not use the message itself."""

_WORK_SOURCE_NOT_SERVED = Outcome(
    status=RunStatus.SKIPPED,
    skip=SkipReason.WORK_SOURCE_ERROR,
    note="this node does not take work items, and the schedule needs one",
)
_PRECHECK_DECLINED = Outcome(status=RunStatus.SKIPPED, skip=SkipReason.PRECHECK)


class CancelledAfterTimeout(asyncio.CancelledError):
    """The run was cancelled when its time was over already, and only its function was still active.

    A node that is stopped then records how the run ended, and not that the stop has interrupted it.
    """

    def __init__(self, finished: FinishedRun) -> None:
        super().__init__()
        self.finished = finished


class SpecSource(Protocol):
    """Where a run reads its target and its prompt."""

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Load what these claims need, all at once."""
        ...

    def target(self, target_id: int) -> Target: ...

    def run_spec(self, schedule_id: int, revision: int) -> RunSpec: ...

    def event_data(self, beat_id: int) -> str | None:
        """Return what came with the event of a beat, as JSON; None if nothing did."""
        ...

    def wake_data(self, run_id: int) -> str | None:
        """Return what came with the event of the run that has asked for this one by `wake_me`; None if nothing did."""
        ...


async def no_precheck(job: Job) -> PrecheckResult:  # noqa: ARG001 - the shape of a check
    """The default, for a node that cannot run prechecks: the schedule runs without."""
    return PrecheckResult(may_run=True, note="this node cannot run prechecks; the beat ran without it")


async def no_obstacle(job: Job) -> Outcome | None:  # noqa: ARG001 - the shape of a check
    """The default, for a node that cannot know beforehand: whether the target starts is seen when it is started."""
    return None


def nothing_to_load(job: Job) -> Awaitable[None] | None:  # noqa: ARG001 - the shape of a loader
    """The default: all program parts are loaded."""
    return None


class ReadyRun(NamedTuple):
    """A run that may start: its job, a remark of its precheck, and when it starts."""

    job: Job
    note: str
    started_at: datetime


class RunExecutor:
    """Executes claims. Always returns an outcome; only a cancellation is raised."""

    def __init__(
        self,
        specs: SpecSource,
        runner: Runner,
        clock: Clock,
        check: RunPrecheck = no_precheck,
        *,
        find_obstacle: FindObstacle = no_obstacle,
        load_runner: LoadRunner = nothing_to_load,
        take_session: TakeSession = no_session,
        work: WorkFetcher | None = None,
        serves_work_sources: bool = False,
        remote: RemoteRuns | None = None,
    ) -> None:
        self._specs = specs
        self._runner = runner
        self._clock = clock
        self._check = check
        self._find_obstacle = find_obstacle
        self._load_runner = load_runner
        self._take_session = take_session
        self._work = work
        self._serves_work_sources = serves_work_sources
        self._remote = remote
        self._timeouts = RunTimeouts()

    def prefetch(self, claims: Sequence[Claim]) -> None:
        """Read the store once for a whole cycle. Each run by itself would read it twice, and wait for the GIL."""
        self._specs.prefetch(claims)

    async def __call__(self, claim: Claim) -> FinishedRun:
        if self._remote is not None and claim.run_id in self._remote.adopted:
            finished = await self._remote.resume(claim)
            return finished._replace(outcome=_redact_outcome(finished.outcome))
        started_at, note = self._clock.now(), ""
        timeout = claim.plan.policies.timeout
        try:
            job, event = self._build_job(claim, started_at + timeout)
            loading = self._load_runner(job)
            if loading is not None or job.run_spec.work_source is not None or self._needs_precheck(claim):
                ready = await self._prepare(job, event, started_at, loading)
                if isinstance(ready, Outcome):
                    return FinishedRun(claim.run_id, None, _redact_outcome(ready))
                job, note, started_at = ready
            job = await self._with_session(job) if job.run_spec.resume_session else job
            remote = self._find_remote(job)
            allowance = timedelta(0) if remote is None else remote.allowance(job)
            with self._timeouts.limit(timeout + allowance):
                outcome = await (remote or self._runner).run(job)
            failpoint(Failpoint.AFTER_RESPONSE)
        except TimeoutError as over_time:
            outcome = describe_timeout(timeout, attached_report(over_time), find_unstarted(over_time))
            try:
                # A function in a thread cannot be stopped: its slot stays taken until it returns.
                survivors = await self._runner.wait_stopped(claim.run_id)
            except asyncio.CancelledError as error_of_wait:
                raise CancelledAfterTimeout(FinishedRun(claim.run_id, started_at, outcome)) from error_of_wait
            outcome = replace(outcome, error=f"{outcome.error}; {survivors}") if survivors else outcome
        except (StoreUnavailable, ClaimLost) as error:  # its target or its item is unknown, so nothing was started
            outcome = Outcome(status=RunStatus.INTERRUPTED, error=f"not started: {error.message}")
        except HerdbeatError as error:
            outcome = Outcome(status=RunStatus.FAILED, error=f"{error.message} {error.hint}".strip())
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise  # the run is cancelled, the program stopped, or this coroutine closed
        except BaseException as error:  # a runner may be anybody's code: whatever it raises is the outcome of this run
            log.exception("internal error during a run run=%s schedule=%s", claim.run_id, claim.label)
            outcome = Outcome(status=RunStatus.FAILED, error=f"{type(error).__name__}: {error}")
        return FinishedRun(claim.run_id, started_at, _redact_outcome(replace(outcome, note=note) if note else outcome))

    def _build_job(self, claim: Claim, deadline: datetime) -> tuple[Job, Mapping[str, object] | None]:
        """Return the job, and what came with its beat: with a call, by hand, or from an earlier run."""
        spec, target = self._specs.run_spec(claim.schedule_id, claim.revision), self._specs.target(claim.target_id)
        event, references = None, spec.variables if spec.prompt else target.spec.variables
        if claim.source.is_clock:  # nothing comes with them, except for a note of an agent to itself
            if claim.source is Source.AI_ONESHOT:
                event = _parse_event(self._specs.wake_data(claim.run_id)) or None
        elif is_webhook_id(claim.dedup_id):
            event = self._read_event(claim)
        elif is_chat_id(claim.dedup_id):
            event, spec = self._read_event(claim), _with_message(spec, target)
        elif is_manual_id(claim.dedup_id):
            given = self._read_event(claim)
            event = given if "payload" in given else None
            if prompt := ManualRequest.from_data(given).prompt:
                text = escape_references(prompt) if spec.variables else prompt  # a person's words refer to nothing
                spec, references = replace(spec, prompt=text), spec.variables
        return _build_job(claim, target, spec, deadline, event, references), event

    def _find_remote(self, job: Job) -> RemoteRuns | None:
        """Return what decides where this job runs; None if it can only be here, as on a node without engines.

        Such a node, too, asks it about a target that names an engine: it is refused there, and never run here.
        """
        remote, spec = self._remote, job.target.spec
        if remote is None or remote.has_engines:
            return remote
        return remote if isinstance(spec, AgentSpec | CommandSpec) and spec.executor is not None else None

    async def _prepare(
        self,
        job: Job,
        event: Mapping[str, object] | None,
        began_at: datetime,
        loading: Awaitable[None] | None,
    ) -> ReadyRun | Outcome:
        """Run the precheck, and take the work item if the target can start; return why the run is skipped, if it is."""
        claim, target, spec = job.claim, job.target, job.run_spec
        work_source, started_at, note = spec.work_source, began_at, ""
        if loading is not None:
            await _before_start(loading)
            started_at = self._clock.now()
        if work_source is not None and self._work is None and not self._serves_work_sources:
            # Without its item the run would do something else than what was asked for.
            return _WORK_SOURCE_NOT_SERVED
        if self._needs_precheck(claim):
            try:
                precheck = await self._check(job)
            except asyncio.CancelledError as error:
                mark_unstarted(error, "its precheck had ended")
                raise
            if not precheck.may_run:
                return _PRECHECK_DECLINED
            note, started_at = precheck.note, self._clock.now()
        if work_source is not None and self._work is not None:
            # Before an item is claimed: each claim is seen by others, on GitHub as a comment.
            if obstacle := await self._find_obstacle(job):
                return obstacle
            taken = await self._work.take(claim, work_source, max_runs=target.max_concurrent)
            if isinstance(taken, Outcome):
                return taken
            started_at = self._clock.now()
            template = _choose_template(target, spec)
            prompt = _render_prompt(claim, target, template, taken, event, references=job.prompt_references)
            job = replace(job, prompt=prompt)
        return ReadyRun(replace(job, deadline=started_at + claim.plan.policies.timeout), note, started_at)

    def _read_event(self, claim: Claim) -> Mapping[str, object]:
        return _parse_event(self._specs.event_data(claim.beat_id))

    def _needs_precheck(self, claim: Claim) -> bool:
        """Runs by hand need none, and a second attempt or a further run of a beat has passed it with the first."""
        if not claim.plan.policies.precheck or claim.attempt != 1 or claim.source in USER_INITIATED:
            return False
        return self._work is None or not self._work.is_further_run(claim.run_id)

    async def _with_session(self, job: Job) -> Job:
        """Return the job with the session that its agent resumes, if there is one that no other run uses."""
        spec = job.target.spec
        if not isinstance(spec, AgentSpec) or spec.runtime == COMMAND_RUNTIME:
            return job
        session_id = await _before_start(self._take_session(job.claim, spec.runtime, job.run_spec.session_timeout))
        return replace(job, session_id=session_id)


async def _before_start(step: Awaitable[T]) -> T:
    """Await a step after which the run starts. A cancellation of it says that nothing has started."""
    try:
        return await step
    except asyncio.CancelledError as error:
        mark_unstarted(error, "it was started")
        raise


def _parse_event(text: str | None) -> Mapping[str, object]:
    data = json.loads(text or "{}")
    return data if isinstance(data, dict) else {}


def _build_job(
    claim: Claim,
    target: Target,
    spec: RunSpec,
    deadline: datetime,
    event: Mapping[str, object] | None = None,
    references: tuple[str, ...] = (),
) -> Job:
    template = _choose_template(target, spec)
    if event is not None and spec.prompt is None and not isinstance(target.spec, AgentSpec):
        # A program that is given no instructions wants what was sent: it is data for it, and no prompt of a model.
        prompt, references = to_text(event.get("payload")), ()
    else:
        prompt = render_static_prompt(template) or _render_prompt(
            claim, target, template, event=event, references=references
        )
    return Job(
        claim=claim,
        target=target,
        prompt=prompt,
        deadline=deadline,
        fence=claim.fence,
        run_spec=spec,
        prompt_references=references,
    )


def _with_message(spec: RunSpec, target: Target) -> RunSpec:
    """Return the spec of a chat run: its prompt always has the message, and its thread is one conversation."""
    template = spec.prompt or (target.spec.default_prompt if isinstance(target.spec, AgentSpec) else None) or ""
    if "message.text" not in template:
        template = f"{template.rstrip()}\n\n{_MESSAGE_TEMPLATE}".lstrip()
    return replace(spec, prompt=template, resume_session=True)


def _choose_template(target: Target, spec: RunSpec) -> str:
    default = target.spec.default_prompt if isinstance(target.spec, AgentSpec) else None
    return spec.prompt or default or FALLBACK_PROMPT


def describe_timeout(timeout: timedelta, report: AgentReport | None, unstarted: Unstarted | None = None) -> Outcome:
    """Return the outcome of a run that was ended at its deadline, with what an agent has reported until then.

    An agent that had reported its result, and only did not exit, has run. One that was waiting for its usage limit has
    reached that limit. `unstarted` says what had not happened by then, if nothing of the target had started.
    """
    error = f"exceeded its timeout of {format_duration(timeout)}"
    if unstarted is not None:
        error += f" before {unstarted.before}"
    if report is None:
        return Outcome(status=RunStatus.TIMED_OUT, error=error)
    if report.ok:
        note = f"the agent had finished, and was ended after {format_duration(timeout)} because it did not exit"
        return add_report(Outcome(status=RunStatus.SUCCEEDED, note=note), report)
    if report.reason is FinishReason.RATE_LIMITED:
        return add_report(Outcome(status=RunStatus.FAILED, error=report.message), report)
    timed_out = replace(report, reason=FinishReason.TIMED_OUT, message=error)
    return add_report(Outcome(status=RunStatus.TIMED_OUT, error=error), timed_out)


def _redact_outcome(outcome: Outcome) -> Outcome:
    """A program may print its arguments, and an endpoint repeat its request: no secret of these is recorded."""
    if outcome.response is None and not (outcome.error or outcome.output or outcome.summary or outcome.note):
        return outcome  # as most do
    error, output, response = redact(outcome.error), redact_known(outcome.output), redact_known_data(outcome.response)
    summary, note = redact(outcome.summary), redact(outcome.note)
    before = outcome.error, outcome.output, outcome.response, outcome.summary, outcome.note
    if (error, output, response, summary, note) == before:
        return outcome
    return replace(outcome, error=error, output=output, response=response, summary=summary, note=note)


def prefetch_in_thread(prefetch: Callable[[Sequence[Claim]], None]) -> Callable[[Sequence[Claim]], Awaitable[None]]:
    """Return `prefetch` as a call in a thread: a store behind a network must not block the heartbeat of the node.

    What cannot be read now is read again by each run, which then reports what is wrong.
    """

    async def prefetch_claims(claims: Sequence[Claim]) -> None:
        try:
            await call_in_thread(prefetch, claims)
        except StoreUnavailable as error:
            log.warning("claims not prepared claims=%s error=%s", len(claims), error)

    return prefetch_claims


def _render_prompt(
    claim: Claim,
    target: Target,
    template: str,
    item: WorkItem | None = None,
    event: Mapping[str, object] | None = None,
    references: tuple[str, ...] = (),
) -> str:
    name, plan = claim.label.partition("/")[2], claim.plan
    if references:  # resolved later, by the runner: what came from outside must not refer to a variable then
        item, event = escape_data(item), escape_data(event)
    schedule = Schedule(target=target.name, name=name, trigger=plan.trigger, policies=plan.policies, prompt=template)
    values = {} if event is None else build_event_values(event)
    if is_event_id(claim.dedup_id):  # its trigger would give it another one
        values = {"source_id": claim.dedup_id, **values}
    return build_schedule_prompt(schedule, item, due_at=claim.due_at, event=values)
