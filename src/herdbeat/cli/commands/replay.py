"""`herdbeat replay`: makes every stored decision again from its inputs, and says which would be another today."""

from collections.abc import Iterator

from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import open_fleet_handle
from herdbeat.cli.output.render import ErrorLine, Output
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.selection import Selection
from herdbeat.service.queries.replay import LedgerReplay, ReplayDifference, replay_ledger
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.service.serialize import serialize_replay

EXIT_DIFFERENT = 1


def run_replay(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    reader = handle.require_reader()
    selection = Selection(names=args.positionals, everything=not args.positionals)
    result = replay_ledger(reader, select_schedules(reader, selection))
    return Output(
        json=lambda: serialize_replay(result),
        lines=_lines(result),
        exit_status=0 if result.is_clean else EXIT_DIFFERENT,
    )


def _lines(result: LedgerReplay) -> Iterator[str]:
    compared = f"{result.same:,} of {format_count(result.decisions, 'stored decision')}"
    yield f"{compared} of {format_count(result.schedules, 'schedule')} recomputed; the results are the same."
    if result.edited:
        yield f"Not compared: {result.edited:,} (made before the last edit of their schedule)."
    if result.unknown:
        yield f"Without stored inputs: {result.unknown:,} (paced starts, or written by an older version)."
    for each in result.differences:
        yield from map(ErrorLine, _difference_lines(each))
    if result.different > len(result.differences):
        yield ErrorLine(f"… and {result.different - len(result.differences):,} more.")


def _difference_lines(difference: ReplayDifference) -> Iterator[str]:
    beat = "its next run" if difference.beat_id is None else f"beat {format_short_id(difference.beat_id)}"
    yield f"✗ {printable(difference.schedule)}, {beat}: the decision is another one today"
    yield f"  stored    {_summarize(difference.stored)}"
    yield f"  replayed  {_summarize(difference.replayed or {})}"


def _summarize(decision: object) -> str:
    if not isinstance(decision, dict) or "source" not in decision:
        return "cannot be read"
    steps = decision.get("steps")
    texts = [str(each.get("text", "")) for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []
    return printable(f"{decision.get('next_run_at') or 'no run'} {decision['source']}: {'; '.join(texts)}")
