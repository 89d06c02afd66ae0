"""`herdbeat cost`, `sessions` and `ack`: what agents cost, what they remember, and where they need a person."""

from collections.abc import Iterator
from datetime import timedelta

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import current_actor, parse_reason
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle, parse_row_count
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import Terminal, format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.agent_run import SpendSource
from herdbeat.domain.ids import format_short_id
from herdbeat.service.commands.base import AckRuns, result_to_json
from herdbeat.service.queries.agents import (
    CostGrouping,
    CostLine,
    CostReport,
    SessionView,
    find_attention,
    read_costs,
    read_sessions,
    select_marked_runs,
)
from herdbeat.service.serialize import serialize_attention, serialize_costs, serialize_sessions
from herdbeat.time_phrases import parse_past_time

DEFAULT_COST_PERIOD = timedelta(days=6)
"""Today and the six days before it."""


def run_cost(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    since_text = args.value(flags.SINCE)
    since = parse_past_time(since_text, handle.now, handle.zone) if since_text else handle.now - DEFAULT_COST_PERIOD
    by = CostGrouping(args.value(flags.COST_BY) or CostGrouping.SCHEDULE)
    report = read_costs(handle.require_reader(), args.positional(0), since=since, zone=handle.zone, by=by)
    return Output(json=lambda: serialize_costs(report), lines=_cost_lines(context.terminal, report))


def _cost_lines(terminal: Terminal, report: CostReport) -> Iterator[str]:
    if not report.lines:
        yield Notice(f"No agent has run since {report.since}.")
        return
    headings = [report.by.upper(), "COST", "TOKENS", "RUNS", "SOURCE"]
    rows = [_cost_row(line) for line in report.lines]
    if len(rows) > 1:
        rows.append(_cost_row(report.total))
    yield from terminal.format_table([headings, *rows], shrink=(0, 4))
    if report.total.unknown_runs:
        unpriced = format_count(report.total.unknown_runs, "run")
        yield Notice(f"{unpriced} without a price are not in the dollars. Add prices: to the fleet file.")
    if report.total.is_notional:
        yield Notice("~ marks costs of a subscription: what the tokens would cost, and not what is billed.")


def _cost_row(line: CostLine) -> list[str]:
    tokens = "–" if line.usage is None else f"{line.usage.total:,}"
    sources = ", ".join(source for source in line.sources if source is not SpendSource.UNKNOWN)
    unknown = f"{line.unknown_runs} unknown" if line.unknown_runs else ""
    source = ", ".join(part for part in (sources, unknown) if part)
    return [printable(line.subject), _format_usd(line), tokens, f"{line.runs:,}", source]


def _format_usd(line: CostLine) -> str:
    if line.usd is None:
        return "unknown"
    digits = 2 if line.usd >= 0.01 or line.usd == 0 else 4
    return f"{'~' if line.is_notional else ''}${line.usd:,.{digits}f}"


def run_sessions(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    limit = parse_row_count(args.value(flags.COUNT))
    sessions = read_sessions(
        handle.require_reader(), args.positional(0), limit, state_dir=handle.state_dir, environ=context.environ
    )
    lines = _session_lines(context.terminal, handle, sessions)
    return Output(json=lambda: serialize_sessions(sessions), lines=lines)


def _session_lines(terminal: Terminal, handle: FleetHandle, sessions: list[SessionView]) -> Iterator[str]:
    if not sessions:
        yield Notice("No agent has reported a session yet.")
        return
    headings = ["SCHEDULE", "LAST USED", "RUNS", "COST", "HOST", "OPEN"]
    rows = [_session_row(handle, view) for view in sessions]
    lines = terminal.format_table([headings, *rows])
    if terminal.fits(lines):
        yield from lines
        return
    heading, *lines = terminal.format_table([headings[:-1], *(row[:-1] for row in rows)], shrink=(4, 0))
    yield heading
    for line, row in zip(lines, rows, strict=True):
        yield line
        yield f"  {row[-1]}"


def _session_row(handle: FleetHandle, view: SessionView) -> list[str]:
    session = view.record
    used = format_time(session.last_used_at, handle.now, handle.zone)
    if session.in_use_by is not None:
        used = f"now, by {format_short_id(session.in_use_by)}"
    cost = "–" if session.usd is None else f"${session.usd:,.2f}"
    opened_by = view.open_command or f"{session.runtime} {session.session_id}"
    return [printable(session.schedule), used, str(session.runs), cost, printable(session.host), printable(opened_by)]


def run_ack(args: ParsedArgs, context: Context) -> Output:
    """Without a name it lists what needs a person, and changes nothing."""
    handle = open_fleet_handle(args, context)
    reader = handle.require_reader()
    if not args.positionals and not args.has(flags.ALL):
        marks = find_attention(reader)
        return Output(
            json=lambda: {"items": [serialize_attention(mark) for mark in marks]},
            lines=_attention_lines(context.terminal, handle),
        )
    command = AckRuns(
        runs=select_marked_runs(reader, args.positionals, everything=args.has(flags.ALL)), reason=parse_reason(args)
    )
    delivery = handle.dispatcher.deliver(current_actor(context), command)
    acked = delivery.result.acked
    text = f"✓ {format_count(acked, 'run')} acknowledged." if acked else "Nothing needs you there."
    return Output(json=lambda: result_to_json(delivery.result), lines=[text], is_compact=True)


def _attention_lines(terminal: Terminal, handle: FleetHandle) -> Iterator[str]:
    marks = find_attention(handle.require_reader())
    if not marks:
        yield Notice("Nothing needs you.")
        return
    rows = [
        [
            format_short_id(mark.run_id),
            printable(mark.schedule),
            format_time(mark.at, handle.now, handle.zone),
            printable("; ".join(mark.what)),
        ]
        for mark in marks
    ]
    yield from terminal.format_table([["RUN", "SCHEDULE", "SINCE", "WHAT"], *rows], shrink=(3, 1))
    yield Notice("Acknowledge: herdbeat ack RUN, herdbeat ack TARGET, or herdbeat ack --all")
