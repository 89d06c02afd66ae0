"""A word that names schedules or one run: `triage`, `triage/standup`, `triage/*`, or `7f3k`."""

from dataclasses import dataclass

from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.errors import NotFound, truncate_for_message
from herdbeat.service.questions import find_run
from herdbeat.service.selecting import Selection, select_schedules
from herdbeat.store.reader import Filter, Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorMatch:
    """Either schedules or a run."""

    schedules: tuple[ScheduleRecord, ...] = ()
    run: RunRecord | None = None


def resolve_selector(reader: Reader, selector: str) -> SelectorMatch:
    """A name comes first: `scan` is a target if there is one, and only else the id of a run. Raises NotFound."""
    try:
        return SelectorMatch(schedules=tuple(select_schedules(reader, Selection(names=(selector,)))))
    except NotFound as unknown:
        run = find_run(reader, selector)
        if run is None:
            message = unknown.message.replace("There is no target or schedule", "There is no target, schedule or run")
            raise NotFound(message, hint='Run "herdbeat runs" or "herdbeat next" to see them.') from None
        return SelectorMatch(run=run)


def find_latest_run(reader: Reader, schedule: ScheduleRecord) -> RunRecord:
    """The last run that really was one. Raises NotFound if it never ran."""
    before: int | None = None
    while found := reader.runs(Filter(target=schedule.target, name=schedule.name, before=before, limit=20)):
        for run in found:
            if run.status is not RunStatus.SKIPPED:
                return run
        before = found[-1].id
    raise NotFound(
        f'"{truncate_for_message(schedule.label)}" has never run.', hint=f"Run it now: herdbeat run {schedule.label}"
    )
