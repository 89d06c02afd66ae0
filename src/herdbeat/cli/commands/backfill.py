"""`herdbeat backfill`: run the instants of a past window now."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import DECLINED, confirm, current_actor, format_config_flag, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, choose_schedule, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.output.time_format import format_full_time
from herdbeat.cli.parser import ParsedArgs, parse_count
from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import humanize
from herdbeat.errors import UsageError
from herdbeat.service.commands.base import BackfilledSchedule, BackfillSchedule
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.commands.runs import (
    DEFAULT_MAX_BACKFILL_BEATS,
    MAX_BACKFILL_BEATS,
    BackfillWindow,
    clip_to_past,
    plan_backfill,
)
from herdbeat.service.serialize import serialize_result
from herdbeat.time_phrases import parse_end_in_past, parse_past_time
from herdbeat.timestamps import format_timestamp

CONFIRM_ABOVE_BEATS = 20
MAX_LISTED_INSTANTS = 10


def run_backfill(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    record = choose_schedule(args, context, handle.require_reader(), args.positionals[0])
    window = clip_to_past(_parse_window(args, handle), handle.now)
    instants = plan_backfill(record.plan, record.label, window, _parse_max_beats(args))
    if args.has(flags.DRY_RUN):
        return _preview(handle, record, window, instants)
    sentence = f"This runs {_describe_instants(handle, record, window, instants)} now."
    if len(instants) <= CONFIRM_ABOVE_BEATS or args.has(flags.YES):
        context.terminal.info(sentence)
    elif not confirm(args, context, sentence):
        return DECLINED
    command = BackfillSchedule(schedule=record.id, start=window.start, end=window.end, reason=parse_reason(args))
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    lines = _result_lines(args, handle, delivery)
    return Output(json=lambda: serialize_result(delivery), lines=lines)


def _describe_instants(
    handle: FleetHandle, record: ScheduleRecord, window: BackfillWindow, instants: Sequence[datetime]
) -> str:
    """Return how many instants there are, and the window in absolute times: a relative one is easily misread."""
    start, end = (format_full_time(each, handle.now, handle.zone) for each in (window.start, window.end))
    return f"{format_count(len(instants), 'past time')} of {record.label} from {start} to {end}"


def _parse_window(args: ParsedArgs, handle: FleetHandle) -> BackfillWindow:
    start, end = args.value(flags.FROM), args.value(flags.UNTIL)
    if start is None:
        raise UsageError("--from is missing.", hint="Give the start of the period, for example --from 2026-03-01.")
    until = handle.now if end is None else parse_end_in_past(end, handle.now, handle.zone)
    return BackfillWindow(start=parse_past_time(start, handle.now, handle.zone), end=until)


def _parse_max_beats(args: ParsedArgs) -> int:
    text = args.value(flags.MAX)
    return DEFAULT_MAX_BACKFILL_BEATS if text is None else parse_count(text, MAX_BACKFILL_BEATS, "--max")


def _result_lines(args: ParsedArgs, handle: FleetHandle, delivery: Delivery[BackfilledSchedule]) -> Iterator[str]:
    result = delivery.result
    name = printable(result.schedule)
    first, last = (format_time(each, handle.now, handle.zone) for each in (result.first, result.last))
    yield (
        f"◷ {name}  backfill #{result.backfill}: {format_count(result.count, 'beat')}, {first} to {last}"
        f"   cancel queued beats: herdbeat cancel {name}{format_config_flag(args)}"
    )
    spread = result.last_start_at - handle.now
    pace = f"spread over {humanize(spread)} (catchup_rate)" if spread.total_seconds() >= 1 else "now"
    later = "They start at the next: herdbeat up"
    starts = f"They start {pace}, as capacity allows" if delivery.has_live_node else later
    yield Notice(f"{starts}. Watch them: herdbeat beats {name} --outcome pending")


def _preview(
    handle: FleetHandle, record: ScheduleRecord, window: BackfillWindow, instants: tuple[datetime, ...]
) -> Output:
    items = [format_timestamp(each) for each in instants]
    lines = [f"  {format_time(each, handle.now, handle.zone)}" for each in instants[:MAX_LISTED_INSTANTS]]
    if len(instants) > MAX_LISTED_INSTANTS:
        lines.append(f"  … {format_time(instants[-1], handle.now, handle.zone)}")
    lines.append(Notice(f"Would run {_describe_instants(handle, record, window, instants)}. Nothing was changed."))
    return Output(json=lambda: {"schedule": record.label, "count": len(items), "instants": items}, lines=lines)
