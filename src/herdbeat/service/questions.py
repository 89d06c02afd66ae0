"""Questions that need the ledger: find what is meant, and who runs it."""

from herdbeat.domain.ids import parse_short_id
from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.service.selecting import no_such_schedule, split_selector
from herdbeat.store.reader import Filter, Reader


def find_schedule(reader: Reader, selector: str) -> ScheduleRecord:
    """`target/schedule`, or the first schedule of a target. Raises NotFound, which guesses."""
    target, name = split_selector(selector)
    found = reader.schedules(Filter(target=target, name=name, limit=1))
    if found:
        return found[0]
    raise no_such_schedule(selector, reader.similar_names(selector))


def resolve_history_filter(reader: Reader, selector: str | None) -> tuple[str | None, str | None]:
    """Target and name to filter by. Raises NotFound for what the ledger does not know."""
    if selector is None:
        return None, None
    target, name = split_selector(selector)
    if not reader.beats(Filter(target=target, name=name, limit=1)):
        find_schedule(reader, selector)  # what was removed from the files keeps its history, so that comes first
    return target, name


def find_run(reader: Reader, text: str) -> RunRecord | None:
    """The run of a short id such as `7f3k`; None if it cannot be one, or there is none."""
    number = parse_short_id(text)
    if not number or number >= 1 << 62:
        return None
    return reader.run(number)


def find_latest_attempt(reader: Reader, beat: str) -> RunRecord | None:
    """The newest run of a beat, by its short id; None while there is none."""
    number = parse_short_id(beat)
    return None if number is None else next(iter(reader.runs(Filter(beat=number, limit=1))), None)
