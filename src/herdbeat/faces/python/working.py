"""A runner that takes an item of work first: query, prompt, run, report."""

import logging
from dataclasses import replace

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.work_item import WorkItem
from herdbeat.errors import WorkSourceError
from herdbeat.faces.python.documented import ScheduleRunResult, WorkSourceManager
from herdbeat.prompts import build_schedule_prompt
from herdbeat.runners.base import Job, Runner

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
        """A report that fails is told, and changes nothing about the run."""
        try:
            await self._source.report_outcome(item, build_run_result(outcome, item=item))
        except Exception:
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
