"""The history in the ledger, newest first: beats, runs and changes, of everything or of what a selector names."""

from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.change import Change
from herdbeat.domain.records import BeatRecord, RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.service.queries.selectors import find_schedule, split_selector
from herdbeat.store.reader import Filter, Reader

Moment = datetime | None


def find_beats(
    reader: Reader,
    selector: str | None,
    outcome: BeatOutcome | None,
    result: RunStatus | None = None,
    *,
    since: Moment,
    before: int | None,
    limit: int,
) -> list[BeatRecord]:
    """Raises NotFound for what the ledger does not know."""
    wanted = Filter(outcome=outcome, result=result, since=since, before=before, limit=limit)
    return reader.beats(_narrow(reader, wanted, selector))


def find_runs(
    reader: Reader, selector: str | None, status: RunStatus | None, *, since: Moment, before: int | None, limit: int
) -> list[RunRecord]:
    """Runs that declined to work are left out, unless a status is given. Raises NotFound."""
    wanted = Filter(status=status, since=since, before=before, limit=limit, include_declined=status is not None)
    return reader.runs(_narrow(reader, wanted, selector))


def find_changes(
    reader: Reader, selector: str | None, *, since: Moment, before: int | None, limit: int
) -> list[Change]:
    """Return who changed what: everywhere, in a target with its schedules, or in one schedule. Raises NotFound."""
    target, name = (None, None) if selector is None else split_selector(selector)
    changes = reader.changes(Filter(target=target, name=name, since=since, before=before, limit=limit))
    if not changes and selector is not None:
        find_schedule(reader, selector)  # a removed schedule keeps its changes, so they come first
    return changes


def _narrow(reader: Reader, wanted: Filter, selector: str | None) -> Filter:
    """Return the filter for what a selector names. Raises NotFound for what the ledger does not know."""
    if selector is None:
        return wanted
    target, name = split_selector(selector)
    if not reader.beats(Filter(target=target, name=name, limit=1)):
        find_schedule(reader, selector)  # a removed schedule keeps its history, so the beats come first
    return replace(wanted, target=target, name=name)
