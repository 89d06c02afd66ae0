"""A runner that takes an item of work first: query, prompt, run, report."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import replace

from herdbeat.bootstrap.embedding import Function, Job, Runner, is_async
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

# `on_trigger` as a runner: what a callback is told about a run.


ScheduleLookup = Callable[[str], Schedule | None]


def callback_runner(on_trigger: SchedulerTriggerCallback, schedule_lookup: ScheduleLookup) -> Function:
    """The function that is told of every run. A plain one gets a thread, so that it may take its time."""
    if is_async(on_trigger):

        async def call_async(job: Job) -> object:
            found = on_trigger(build_trigger_info(job, schedule_lookup))
            return await found if inspect.isawaitable(found) else found

        return Function(call=call_async, is_async=True, takes_run=True)
    return Function(
        call=lambda job: on_trigger(build_trigger_info(job, schedule_lookup)), is_async=False, takes_run=True
    )


def build_trigger_info(job: Job, schedule_lookup: ScheduleLookup) -> TriggerInfo:
    """The schedule as it was handed over; one that was edited away meanwhile is told as it was planned."""
    label, plan, target = job.claim.label, job.claim.plan, job.target
    name = label.rpartition("/")[2]
    planned = Schedule(
        target=job.target.name, name=name, trigger=plan.trigger, policies=plan.policies, prompt=job.prompt
    )
    return TriggerInfo(
        agent=target,
        schedule_name=name,
        schedule=schedule_lookup(label) or planned,
        job_id=format_short_id(job.claim.run_id),
        prompt=job.prompt,
        due_at=job.claim.due_at,
        attempt=job.claim.attempt,
        metadata=TriggerMetadata(trigger_type=plan.trigger.kind, schedule=name),
    )


log = logging.getLogger(__name__)


class WorkSourceRunner:
    """Without an item there is no run (`no_work`); a source that fails is no failure of the agent."""

    def __init__(self, schedule: Schedule, source: WorkSourceManager, runner: Runner) -> None:
        self._schedule = schedule
        self._source = source
        self._runner = runner
        self.item: WorkItem | None = None

    async def run(self, job: Job) -> Outcome:
        try:
            self.item = await self._source.get_next_work_item(job.target, self._schedule)
        except WorkSourceError as error:
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.WORK_SOURCE_ERROR, error=error.message)
        if self.item is None:
            return Outcome(status=RunStatus.SKIPPED, skip=SkipReason.NO_WORK)
        outcome = await self._runner.run(replace(job, prompt=self._prompt(job, self.item)))
        await self._report(self.item, outcome)
        return outcome

    async def wait_stopped(self, run_id: int) -> None:
        await self._runner.wait_stopped(run_id)

    def _prompt(self, job: Job, item: WorkItem) -> str:
        spec = job.target.spec
        default = spec.default_prompt if isinstance(spec, AgentSpec) else None
        return build_schedule_prompt(self._schedule, item, due_at=job.claim.due_at, default_prompt=default)

    async def _report(self, item: WorkItem, outcome: Outcome) -> None:
        """Report the outcome. A report that fails is logged, and changes nothing about the run."""
        try:
            await self._source.report_outcome(item, build_run_result(outcome, item=item))
        except Exception:  # a work source is the user's code: whatever it raises now, the run has ended as it did
            log.exception("work not reported item=%s the run stays as it ended", item.id)


def build_run_result(
    outcome: Outcome, *, item: WorkItem | None = None, job_id: str | None = None, seconds: float = 0.0
) -> ScheduleRunResult:
    """An outcome in the documented words. No work is no failure."""
    is_skipped = outcome.status is RunStatus.SKIPPED
    reason = SkipReason(outcome.skip) if is_skipped and outcome.skip else None
    return ScheduleRunResult(
        success=outcome.status is RunStatus.SUCCEEDED or reason is SkipReason.NO_WORK,
        job_id=job_id,
        error=outcome.error or None,
        summary=outcome.summary or None,
        response=outcome.response,
        session_id=outcome.session or None,
        duration_seconds=seconds,
        skipped=is_skipped,
        skip_reason=reason,
        work_item=item,
        usage=outcome.usage,
    )
