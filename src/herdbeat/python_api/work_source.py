"""Runners of the Python API: `on_trigger` as a runner, and one that first gets an item of work.

The second one queries the work source, renders the prompt, runs, and reports the outcome.
"""

import inspect
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from herdbeat.bootstrap.embedding import Function, Job, Runner, call_source, is_async
from herdbeat.domain.beat import SkipReason
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.work_item import WorkItem
from herdbeat.errors import WorkSourceError
from herdbeat.prompts import build_schedule_prompt
from herdbeat.python_api.herdctl_types import (
    SchedulerTriggerCallback,
    ScheduleRunResult,
    TriggerInfo,
    TriggerMetadata,
    WorkSourceManager,
)

T = TypeVar("T")
ScheduleLookup = Callable[[str], Schedule | None]


def callback_runner(on_trigger: SchedulerTriggerCallback, schedule_lookup: ScheduleLookup) -> Function:
    """Return the function that calls `on_trigger` for every run. A plain one runs in a thread, so it may block."""

    def call(job: Job) -> object:
        return on_trigger(build_trigger_info(job, schedule_lookup))

    async def call_async(job: Job) -> object:
        value = call(job)
        return await value if inspect.isawaitable(value) else value

    runs_in_loop = is_async(on_trigger)
    return Function(call=call_async if runs_in_loop else call, is_async=runs_in_loop, takes_run=True)


def build_trigger_info(job: Job, schedule_lookup: ScheduleLookup) -> TriggerInfo:
    """Return what a callback gets. A schedule that was removed meanwhile is given as it was planned."""
    claim, plan, target, prompt = job.claim, job.claim.plan, job.target, job.prompt
    name = claim.label.rpartition("/")[2]
    planned = Schedule(target=target.name, name=name, trigger=plan.trigger, policies=plan.policies, prompt=prompt)
    return TriggerInfo(
        agent=target,
        schedule_name=name,
        schedule=schedule_lookup(claim.label) or planned,
        job_id=format_short_id(claim.run_id),
        prompt=prompt,
        due_at=claim.due_at,
        attempt=claim.attempt,
        metadata=TriggerMetadata(trigger_type=plan.trigger.kind, schedule=name),
    )


log = logging.getLogger(__name__)


class WorkSourceRunner:
    """Skips the run if there is no item (`no_work`) or if the source fails, which is no failure of the agent."""

    def __init__(self, schedule: Schedule, source: WorkSourceManager, runner: Runner) -> None:
        self._schedule = schedule
        self._source = source
        self._runner = runner
        self.item: WorkItem | None = None

    async def run(self, job: Job) -> Outcome:
        self.item, error = await call_source(lambda: self._source.get_next_work_item(job.target, self._schedule))
        if error is not None:
            if not isinstance(error, WorkSourceError):
                log.error("work source failed schedule=%s", job.claim.label, exc_info=error)
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.WORK_SOURCE_ERROR, error=_describe_error(error))
        if self.item is None:
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.NO_WORK)
        spec, due_at = job.target.spec, job.claim.due_at
        default = spec.default_prompt if isinstance(spec, AgentSpec) else None
        prompt = build_schedule_prompt(self._schedule, self.item, due_at=due_at, default_prompt=default)
        outcome = await self._runner.run(replace(job, prompt=prompt))
        await self._report(self.item, outcome)
        return outcome

    async def wait_stopped(self, run_id: int) -> str:
        return await self._runner.wait_stopped(run_id)

    async def _report(self, item: WorkItem, outcome: Outcome) -> None:
        """Report the outcome. A report that fails is logged, and changes nothing about the run."""
        result = build_run_result(outcome, item=item)
        _, error = await call_source(lambda: self._source.report_outcome(item, result))
        if error is not None:
            text = "work item not reported item=%s the result of the run does not change"
            log.error(text, item.id, exc_info=error)


def _describe_error(error: Exception) -> str:
    if isinstance(error, WorkSourceError):
        return error.message
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def build_run_result(
    outcome: Outcome, *, item: WorkItem | None = None, job_id: str | None = None, seconds: float = 0.0
) -> ScheduleRunResult:
    """Return an outcome in the documented words. No work counts as success."""
    is_skipped = outcome.status is RunStatus.SKIPPED
    reason = SkipReason(outcome.skip) if is_skipped and outcome.skip else None
    return ScheduleRunResult(
        success=outcome.status is RunStatus.SUCCEEDED or reason is SkipReason.NO_WORK,
        job_id=job_id,
        error=outcome.error or (outcome.note if is_skipped else "") or None,
        summary=outcome.summary or None,
        response=outcome.response,
        session_id=outcome.session or None,
        duration_seconds=seconds,
        skipped=is_skipped,
        skip_reason=reason,
        work_item=item,
        usage=outcome.usage,
    )
