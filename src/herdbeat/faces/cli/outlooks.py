"""Which schedules `herdbeat next` is about, and how they stand: from the ledger, the files, or both."""

from collections.abc import Iterable
from pathlib import Path

from herdbeat.domain.hint import Hint
from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import StoreUnavailable
from herdbeat.faces.cli.fleets import matches_selector, unknown_selector_error
from herdbeat.faces.cli.ledger import FleetHandle
from herdbeat.faces.cli.world import Context
from herdbeat.service.hints import build_hint
from herdbeat.service.listing import find_schedules
from herdbeat.service.outlook import ForecastInput, build_file_forecast, build_ledger_forecast, merge_files_and_ledger
from herdbeat.store.looking import QueryReader, ScheduleQuery

MAX_SCHEDULES = 1_000_000


def load_forecast_inputs(handle: FleetHandle, context: Context, selector: str | None) -> list[ForecastInput]:
    """Raises NotFound, which guesses.

    While a fleet runs, its ledger is all there is to know: files that changed a moment ago, or are broken, are not what
    it runs. Else the files count too, since they are what the next `up` begins with.
    """
    reader = handle.reader
    if reader is None:
        return _filter_by_selector(
            handle, [build_file_forecast(each, handle.now) for each in handle.fleet.schedules], selector
        )
    try:
        if handle.holder_pid is not None or not handle.has_files or not isinstance(handle.path, Path):
            return _load_from_ledger(handle, reader, selector)
        known = reader.find(ScheduleQuery(now=handle.now, limit=MAX_SCHEDULES))
        merged = merge_files_and_ledger(handle.fleet.schedules, known, _active_hints(reader, known, handle), handle.now)
    except StoreUnavailable as error:
        if not handle.has_files:
            raise
        context.terminal.info(f"{error.message.rstrip('.')}. These are the times of the files alone.")
        merged = [build_file_forecast(each, handle.now) for each in handle.fleet.schedules]
    return _filter_by_selector(handle, merged, selector)


def _load_from_ledger(handle: FleetHandle, reader: QueryReader, selector: str | None) -> list[ForecastInput]:
    names = () if selector is None else (selector,)
    found = find_schedules(reader, ScheduleQuery(now=handle.now, names=names, limit=MAX_SCHEDULES))
    hints = _active_hints(reader, found, handle)
    has_live_node = handle.holder_pid is not None
    return [
        build_ledger_forecast(each, hints.get(each.label, []), handle.now, has_live_node=has_live_node)
        for each in found
    ]


def _active_hints(reader: QueryReader, records: Iterable[ScheduleRecord], handle: FleetHandle) -> dict[str, list[Hint]]:
    """Those that are not over, by schedule."""
    found: dict[str, list[Hint]] = {}
    if reader.has_hints():
        for each in reader.hints([record.id for record in records], ended_since=handle.now, limit=MAX_SCHEDULES):
            if each.ended_at is None:
                found.setdefault(each.schedule, []).append(build_hint(each))
    return found


def _filter_by_selector(handle: FleetHandle, inputs: list[ForecastInput], selector: str | None) -> list[ForecastInput]:
    """All, a target's, those of a pattern, or one `target/schedule`."""
    if selector is None:
        return inputs
    chosen = [each for each in inputs if matches_selector(each.id, selector)]
    if not chosen and handle.fleet.target(selector) is None:
        raise unknown_selector_error(handle.fleet, selector, (each.label for each in inputs))
    return chosen
