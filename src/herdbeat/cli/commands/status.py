"""`herdbeat status`: what is running, late, failing, paused, disabled and next. Empty groups are not printed."""

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import FrameType
from typing import TextIO

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import (
    FleetHandle,
    describe_broken_files,
    describe_last_sign,
    open_fleet_handle,
    select_schedules,
)
from herdbeat.cli.output.details import filled_columns, fold_parts, headline, select_columns
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.symbols import STATE_SYMBOLS, format_cause, format_time
from herdbeat.cli.output.terminal import Terminal, display_width, format_count, printable
from herdbeat.cli.output.time_format import format_time_left
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.agent_records import AttentionRecord
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.durations import format_duration, format_elapsed, humanize
from herdbeat.errors import UsageError, truncate_for_message
from herdbeat.redaction import redact
from herdbeat.service.queries.nodes import format_hosts
from herdbeat.service.queries.schedule_state import DisplayState, describe_retry
from herdbeat.service.queries.status import (
    FleetStatus,
    HeldSchedule,
    LateBeat,
    RunInProgress,
    ScheduleOverBudget,
    describe_backoff,
    read_status,
)
from herdbeat.service.serialize import serialize_status

EXIT_CHECK_FAILED = 6
SLOW_THRESHOLD = timedelta(seconds=1)
MAX_CAUSE_CHARS = 300
MAX_GROUP_ROWS = 10
"""Rows of a group; `beats`, `runs` and `--json` have the others."""

REDRAW_INTERVAL_S = 1.0
"""The screen shows times left, so it is redrawn even if nothing has happened."""

_ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE_SCREEN = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The alternate screen, no cursor, and no line wrapping: a long line would push the others down."""

_CURSOR_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def run_status(args: ParsedArgs, context: Context) -> Output | int:
    handle = open_fleet_handle(args, context)
    if args.has(flags.WATCH):
        return _watch_status(args, context, handle)
    status = _load_status(args, handle)
    broken_files = describe_broken_files(args, context, handle)
    is_failed_check = args.has(flags.CHECK) and (status.needs_attention or not status.has_working_node)
    lines = _status_lines(context.terminal, handle, status)
    notices = [broken_files] if broken_files else []
    exit_status = EXIT_CHECK_FAILED if is_failed_check else 0
    serialize = partial(serialize_status, status, handle.name)
    return Output(json=serialize, lines=lines, notices=notices, exit_status=exit_status)


def _watch_status(args: ParsedArgs, context: Context, handle: FleetHandle) -> int:
    """Redraw until Ctrl+C, on the alternate screen of the terminal, which keeps what was there before.

    Raises UsageError if stdout is not a terminal.
    """
    if args.has(flags.JSON) or not context.terminal.out.isatty():
        raise UsageError("--watch requires an interactive terminal.", hint="Omit --watch.")
    out = context.terminal.out
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    out.write(_ENTER_SCREEN)
    try:
        while True:
            columns, lines = _screen_size(out)
            terminal = replace(context.terminal, columns=columns)
            current = replace(handle, now=handle.clock.now())
            rows = _status_lines(terminal, current, _load_status(args, current))
            out.write(redact(render_frame(terminal, rows, lines)))
            out.flush()
            time.sleep(REDRAW_INTERVAL_S)
    finally:
        out.write(_LEAVE_SCREEN)
        out.flush()
        signal.signal(signal.SIGTERM, before)


def render_frame(terminal: Terminal, drawn: Iterable[str], lines: int) -> str:
    """Return one screen as one text, written over the last one: clearing first would flicker. The rest is cut off."""
    shown = [line for text in drawn for line in text.splitlines() or [""]]
    if len(shown) > lines:
        shown[lines - 1 :] = [terminal.style(f"… {len(shown) - lines + 1} more lines", "dim")]
    # Cleared before it is written: after a line as wide as the screen the cursor stands on its last letter.
    *above, last = shown or [""]
    return _CURSOR_HOME + "".join(f"{_CLEAR_LINE}{line}\n" for line in above) + _CLEAR_BELOW + last


def _screen_size(out: TextIO) -> tuple[int, int]:
    """Return columns and lines. Read for each frame: the window may have been resized."""
    size = os.get_terminal_size(out.fileno())
    return size.columns or 80, size.lines or 24


def _raise_interrupt(number: int, at: FrameType | None) -> None:  # noqa: ARG001 -- the shape of a handler
    """End as Ctrl+C does, so that SIGTERM does not leave the terminal on its alternate screen."""
    raise KeyboardInterrupt


def _load_status(args: ParsedArgs, handle: FleetHandle) -> FleetStatus:
    if handle.reader is None:
        schedules = select_schedules(handle.fleet, args.positional(0))
        return FleetStatus(now=handle.now, pid=handle.holder_pid, node=None, schedules=len(schedules))
    status = read_status(handle.reader, handle.now, handle.holder_pid, args.positional(0), zone=handle.zone)
    return replace(status, live_nodes=handle.live_nodes)


def _status_lines(terminal: Terminal, handle: FleetHandle, status: FleetStatus) -> Iterator[str]:
    schedules = format_count(status.schedules, "schedule")
    parts = [*_scheduler_parts(terminal, handle, status), schedules, *_format_spend(terminal, status)]
    yield from headline(terminal, handle.name, *parts)
    if status.schedules and not status.needs_attention and status.pid and not _is_behind(status):
        subject = f"All {status.schedules} schedules are" if status.schedules > 1 else "Its schedule is"
        waiting = ", not counting what waits for an account" if status.accounts else ""
        yield terminal.style(f"{subject} on time{waiting}.", "green")
    yield from _group_lines(terminal, "RUNNING", "cyan", [_running_row(run, handle) for run in status.running])
    yield from _group_lines(terminal, "CUT OFF", "yellow", [_cut_off_row(run, handle) for run in status.cut_off])
    yield from _group_lines(terminal, "LATE", "yellow", [_late_row(beat, handle) for beat in status.late])
    yield from _failing_lines(terminal, handle, status)
    yield from _group_lines(
        terminal, "NEEDS YOU", "yellow", [_attention_row(mark, handle) for mark in status.attention]
    )
    yield from _group_lines(
        terminal, "USAGE LIMITS", "yellow", [_account_row(hold, handle) for hold in status.accounts]
    )
    yield from _group_lines(
        terminal, "OVER BUDGET", "yellow", [_over_budget_row(each, handle) for each in status.over_budget]
    )
    for state, colour in ((DisplayState.PAUSED, "magenta"), (DisplayState.DISABLED, "dim")):
        held = [_held_row(each, handle) for each in status.held if each.hold.state is state]
        yield from _group_lines(terminal, state.upper(), colour, held)
    upcoming = [_next_row(record, status) for record in status.upcoming]
    title = "NEXT" if status.pid else "NEXT, if the scheduler were running"
    yield from _group_lines(terminal, title, "bold", upcoming, is_counted=False)
    if status.needs_attention:
        worst = status.late[0].schedule if status.late else status.failing[0].label
        yield ""
        yield from fold_parts(terminal, [terminal.style(part, "dim") for part in _next_commands(status, worst)])


def _attention_row(mark: AttentionRecord, handle: FleetHandle) -> list[str]:
    run = format_short_id(mark.run_id)
    when = format_time(mark.at, handle.now, handle.zone)
    return [printable(mark.schedule), run, when, printable("; ".join(mark.what)), f"done: herdbeat ack {run}"]


def _account_row(hold: AccountHold, handle: FleetHandle) -> list[str]:
    account = f"{hold.account} ({hold.model})" if hold.model else hold.account
    until = f"until {format_time(hold.until, handle.now, handle.zone)}"
    release = f"release: herdbeat resume --account {hold.account}"
    return [printable(account), until, f"reached by run {format_short_id(hold.run_id)}", printable(release)]


def _over_budget_row(over_budget: ScheduleOverBudget, handle: FleetHandle) -> list[str]:
    until = format_time(over_budget.until, handle.now, handle.zone)
    label = printable(over_budget.record.label)
    return [label, f"beats are skipped until {until}", f"why: herdbeat explain {label}"]


def _failing_lines(terminal: Terminal, handle: FleetHandle, status: FleetStatus) -> Iterator[str]:
    """Yield what fails. Where a row is wider than the screen, its cause has lines of its own: it is never cut."""
    rows = [_failing_row(record, handle) for record in status.failing]
    lines = list(_group_lines(terminal, "FAILING", "red", rows, is_cut=False))
    if terminal.columns is None or max(map(display_width, lines), default=0) <= terminal.columns:
        yield from lines
        return
    shown = rows[:MAX_GROUP_ROWS]
    blank, title, *rest = lines
    yield from (blank, title)
    brief = [[label, count, *others] for label, count, _, *others in shown]
    table = terminal.format_table(select_columns(brief, filled_columns(brief)), indent="  ", shrink=(2, 3, 0, 1))
    for line, (_, _, cause, *_) in zip(table, shown, strict=True):
        yield line
        yield from terminal.wrap(truncate_for_message(cause, MAX_CAUSE_CHARS), "    ") if cause else ()
    yield from rest[len(shown) :]


def _next_commands(status: FleetStatus, worst: str) -> list[str]:
    """Return what to do next: ask why; look for what is missing, try what failed again, or end its backoff."""
    parts = [f"why: herdbeat explain {printable(worst)}"]
    if status.failing and status.failing[0].is_unable:
        parts.append("check: herdbeat doctor")
    elif status.failing:
        label = printable(status.failing[0].label)
        parts += [f"retry: herdbeat retry {label}", f"end backoff: herdbeat reset {label}"]
    return parts


def _scheduler_parts(terminal: Terminal, handle: FleetHandle, status: FleetStatus) -> list[str]:
    since = status.since
    if status.live_nodes and since is not None:
        return [_format_nodes(terminal, status, since), _format_lag(terminal, status.lag)]
    if status.pid is not None:
        up = f"up {humanize(status.now - since)} (pid {status.pid})" if since else f"up (pid {status.pid})"
        return [up, _format_lag(terminal, status.lag)]
    text = "never started" if status.node is None else describe_last_sign(status.node, handle)
    return [terminal.style(f"scheduler: not running ({text})", "yellow")]


def _format_nodes(terminal: Terminal, status: FleetStatus, since: datetime) -> str:
    """up 3h (2 nodes: db1, web1)"""
    working = [each for each in status.live_nodes if each.works]
    if not working:
        text = f"{format_count(len(status.live_nodes), 'node')} up, all with --no-workers"
        return terminal.style(text, "yellow")
    return f"up {humanize(status.now - since)} ({format_count(len(working), 'node')}: {format_hosts(working)})"


def _format_spend(terminal: Terminal, status: FleetStatus) -> list[str]:
    """today $3.41 of $20; without a budget only what was used"""
    if status.spend_today is None:
        return []
    used, most = status.spend_today
    if most is None:
        return [f"today {_format_dollars(used)}"]
    text = f"today {_format_dollars(used)} of {_format_dollars(most)}"
    return [terminal.style(text, "yellow") if used >= most else text]


def _format_dollars(number: float) -> str:
    return f"${number:,.2f}".removesuffix(".00")


def _is_behind(status: FleetStatus) -> bool:
    return status.lag is not None and status.lag >= SLOW_THRESHOLD


def _format_lag(terminal: Terminal, behind: timedelta | None) -> str:
    if behind is None:
        return "scheduler ok"
    if behind < SLOW_THRESHOLD:
        text = format_elapsed(behind) if behind >= timedelta(milliseconds=1) else "under 1ms"
        return f"scheduler ok, {text} behind"
    return terminal.style(f"scheduler {format_elapsed(behind)} behind", "yellow")


def _group_lines(
    terminal: Terminal,
    title: str,
    colour: str,
    rows: Sequence[Sequence[str]],
    *,
    is_counted: bool = True,
    is_cut: bool = True,
) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield terminal.style(f"{title} {len(rows)}" if is_counted else title, colour)
    shown = select_columns(rows[:MAX_GROUP_ROWS], filled_columns(rows))
    yield from terminal.format_table(shown, indent="  ", shrink=(2, 3, 0, 1) if is_cut else ())
    if len(rows) > MAX_GROUP_ROWS:
        yield f"  and {len(rows) - MAX_GROUP_ROWS} more"


def _running_row(each: RunInProgress, handle: FleetHandle) -> list[str]:
    run = each.run
    going = format_elapsed(run.elapsed(handle.now))
    why = format_cause(run.source, run.origin, is_brief=True)
    where = f", {printable(str(each.remote))}" if each.remote is not None else ""
    return [printable(run.schedule), format_short_id(run.id), going, _format_usual_duration(each), f"{why}{where}"]


def _cut_off_row(run: RunRecord, handle: FleetHandle) -> list[str]:
    began = f"started {_format_time(run.began_at, handle)}"
    then = "the next start records it as interrupted"
    return [printable(run.schedule), format_short_id(run.id), began, then]


def _format_usual_duration(each: RunInProgress) -> str:
    if each.typical_duration is None:
        return ""
    shortest, longest = (format_elapsed(part) for part in each.typical_duration)
    return f"usually {shortest}" if shortest == longest else f"usually {shortest} to {longest}"


def _late_row(each: LateBeat, handle: FleetHandle) -> list[str]:
    due = f"due {_format_time(each.due_at, handle)}, {format_time_left(each.due_at, handle.now)}"
    parts = [each.detail] if each.detail else []
    if (run := each.blocking_run) is not None:
        parts.insert(0, f"{format_short_id(run.id)} since {_format_time(run.began_at, handle)}")
    return [printable(each.schedule), due, f"{each.reason}: {', '.join(parts)}" if parts else each.reason]


def _format_time(moment: datetime, handle: FleetHandle) -> str:
    """Return 09:05; seconds only where there are any, because this screen is the narrowest."""
    return format_time(moment, handle.now, handle.zone).removesuffix(":00")


def _failing_row(record: ScheduleRecord, handle: FleetHandle) -> list[str]:
    error = " ".join(printable(record.quarantine or record.last_error or "").split())
    if record.quarantine or record.is_unable:
        count = "quarantined" if record.quarantine else "cannot start"
    else:
        attempts = format_count((record.retry_attempt or 1) - 1, "attempt")
        count = f"{record.failures} in a row" if record.failures else attempts
    following = f"next {_format_time(record.next_run_at, handle)}" if record.next_run_at else ""
    following = describe_retry(record, handle.now) or following
    return [printable(record.label), count, error, describe_backoff(record), following]


def _held_row(each: HeldSchedule, handle: FleetHandle) -> list[str]:
    hold = each.hold
    end = "" if hold.until is None else f" until {format_time(hold.until, handle.now, handle.zone)}"
    state = f"{STATE_SYMBOLS[hold.state][0]} {hold.state}{end}"
    return [printable(each.record.label), state, f"by {printable(hold.by)}", printable(hold.reason)]


def _next_row(record: ScheduleRecord, status: FleetStatus) -> list[str]:
    assert record.next_run_at is not None
    left = format_time_left(max(record.next_run_at, status.now), status.now)  # what is overdue would start now
    return [left, printable(record.label), *_format_pace(record, status)]


def _format_pace(record: ScheduleRecord, status: FleetStatus) -> tuple[str, str]:
    """Return its own pace, or that of a hint with its author and how long it lasts."""
    hint = status.interval_hints.get(record.label)
    if hint is not None and hint.every is not None:
        ends = humanize(hint.expires_at - status.now)
        return f"every {format_duration(hint.every)}", printable(f"hint by {hint.origin}, {ends} left")
    trigger, source = record.plan.trigger, record.next_source
    why = "" if source is None else format_cause(source, record.next_origin or "", is_brief=True)
    return f"{trigger.describe()} {trigger.options().get('timezone', '')}".strip(), why
