"""`herdbeat planner`: what the planner has analysed, its proposals, and their outcomes."""

from collections.abc import Iterable, Iterator

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.planner import PlannedAction, PlannerSession
from herdbeat.durations import humanize
from herdbeat.errors import NotFound, UsageError
from herdbeat.service.serialize import serialize_planner_session
from herdbeat.timestamps import format_optional_timestamp

DEFAULT_ROWS = 20
_HEADINGS = ["ID", "GROUP", "WHEN", "STATUS", "DONE", "TOKENS", "COST", "NEXT", "REASONING"]


def run_planner(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    group = args.positionals[0] if args.positionals else ""
    sessions = handle.require_reader().planner_sessions(group, limit=_parse_count(args))
    lines: Iterable[str] = [Notice("No sessions of the planner.")]
    if sessions:
        rows = [_HEADINGS, *(_row(handle, each) for each in sessions)]
        lines = context.terminal.format_table(rows, shrink=(8, 1))
    return Output(json=lambda: {"items": [serialize_planner_session(each) for each in sessions]}, lines=lines)


def run_show(args: ParsedArgs, context: Context) -> Output:
    handle, text = open_fleet_handle(args, context), args.positionals[0]
    is_id = text.isascii() and text.isdigit() and len(text) < 19
    found = handle.require_reader().planner_sessions(session_id=int(text), limit=1) if is_id and int(text) else []
    if not found:
        raise NotFound(f'There is no session "{printable(text)}".', hint="List them: herdbeat planner")
    return Output(json=lambda: serialize_planner_session(found[0]), lines=_session_lines(handle, found[0]))


def _parse_count(args: ParsedArgs) -> int:
    text = args.value(flags.COUNT)
    if text is None:
        return DEFAULT_ROWS
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000):
        raise UsageError(f'"{text}" is not a number of rows.', hint="Use a number from 1 to 1000.")
    return int(text)


def _row(handle: FleetHandle, session: PlannerSession) -> list[str]:
    done = sum(each.outcome.startswith("done") for each in session.actions)
    return [
        str(session.id),
        printable(session.group),
        format_time(session.started_at, handle.now, handle.zone),
        str(session.status),
        f"{done}/{len(session.actions)}" if session.actions else "–",
        f"{session.tokens:,}" if session.tokens else "–",
        "–" if session.usd is None else f"${session.usd:.4f}",
        format_time(session.next_at, handle.now, handle.zone),
        printable((session.error or session.reasoning).partition("\n")[0]),
    ]


def _session_lines(handle: FleetHandle, session: PlannerSession) -> Iterator[str]:
    started = format_time(session.started_at, handle.now, handle.zone)
    took = humanize(session.finished_at - session.started_at)
    yield f"session {session.id} of group {printable(session.group)}   {session.status}   {started}, took {took}"
    yield f"model {printable(session.model)}   {session.input_tokens:,} tokens in, {session.output_tokens:,} out"
    yield f"next analysis {format_time(session.next_at, handle.now, handle.zone)}"
    if session.error:
        yield f"error: {printable(session.error)}"
    yield from (f"warning: {printable(each)}" for each in session.warnings)
    if session.reasoning:
        yield ""
        yield from (f"  {printable(line)}" for line in session.reasoning.splitlines())
    yield ""
    yield from map(_action_line, session.actions)
    for call in session.calls:
        yield f"  {'·' if call.ok else '✗'} {printable(call.tool)} {printable(call.answer)}"


def _action_line(action: PlannedAction) -> str:
    what = f"every {action.every_s:g}s" if action.every_s is not None else format_optional_timestamp(action.at) or ""
    text = f"{action.kind} {action.schedule} {what}".strip()
    return f"→ {printable(text)}: {printable(action.outcome)}   {printable(action.reason)}"
