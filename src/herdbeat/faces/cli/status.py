"""`herdbeat status`: how is the fleet? Empty groups are not printed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import format_duration, measured_duration, spoken_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.facts import say_headline
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.marks import counted, near_time
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.times import left
from herdbeat.faces.cli.watch import watch
from herdbeat.faces.cli.world import World
from herdbeat.service.members import hosts_of
from herdbeat.service.status import Active, Late, Status, backoff_words, read_status, status_object

CHECK_FAILED = 6
SLOW = timedelta(seconds=1)
MOST = 10
"""Rows of a group. Who has more to look at finds them with `beats`, `runs` and `--json`."""


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        if given.has(flags.WATCH):
            return watch(given, world, ledger, show)
        status = find_status(given, ledger)
        if given.has(flags.JSON):
            answer = status_object(status, ledger.name)
            world.terminal.say(json.dumps(answer, indent=2, ensure_ascii=False))
        else:
            show_status(world.terminal, ledger, status)
    return CHECK_FAILED if given.has(flags.CHECK) and status.needs_a_look else 0


def show(given: Given, terminal: Terminal, ledger: Ledger) -> None:
    """The whole screen, as it is at the moment of the ledger."""
    show_status(terminal, ledger, find_status(given, ledger))


def find_status(given: Given, ledger: Ledger) -> Status:
    if ledger.reader is None:
        from herdbeat.faces.cli.fleets import select_schedules  # noqa: PLC0415 -- the ledger knows, once there is one

        schedules = select_schedules(ledger.fleet, given.word(0))
        return Status(now=ledger.now, pid=ledger.holder, node=None, schedules=len(schedules))
    status = read_status(ledger.reader, ledger.now, ledger.holder, given.word(0), zone=ledger.zone)
    return replace(status, crew=ledger.crew)


def show_status(terminal: Terminal, ledger: Ledger, status: Status) -> None:
    parts = [*_scheduler(terminal, ledger, status), counted(status.schedules, "schedule"), *_today(terminal, status)]
    say_headline(terminal, ledger.name, *parts)
    if status.schedules and not status.needs_a_look and status.pid:
        all_of_them = f"all {status.schedules} schedules" if status.schedules > 1 else "its schedule is"
        terminal.say(terminal.style(f"{all_of_them} on time", "green"))
    _group(terminal, "RUNNING", "cyan", [_running_row(each, ledger) for each in status.running])
    _group(terminal, "LATE", "yellow", [_late_row(each, ledger) for each in status.late])
    _group(terminal, "FAILED", "red", [_failing_row(each, ledger) for each in status.failing], "not recovered")
    remark = "by hand" if status.is_held_by_hand else ""
    _group(terminal, "HELD", "blue", [_held_row(each, ledger) for each in status.held], remark)
    _group(terminal, "NEXT", "bold", [_next_row(each, status) for each in status.soon], is_counted=False)
    if status.needs_a_look:
        worst = status.late[0].schedule if status.late else status.failing[0].label
        terminal.say()
        terminal.say(terminal.style(f"why?  herdbeat explain {printable(worst)}", "dim"))


def _scheduler(terminal: Terminal, ledger: Ledger, status: Status) -> list[str]:
    since = status.since
    if status.crew and since is not None:
        return [_crew(terminal, status, since), _behind(terminal, status.behind)]
    if status.pid is not None:
        up = f"up {spoken_duration(status.now - since)} (pid {status.pid})" if since else f"up (pid {status.pid})"
        return [up, _behind(terminal, status.behind)]
    told = f"since {near_time(since, status.now, ledger.zone)}" if since else "it never was"
    return [terminal.style(f"scheduler: not running ({told})", "yellow")]


def _crew(terminal: Terminal, status: Status, since: datetime) -> str:
    """up 3h (2 nodes: db1, web1)"""
    working = [each for each in status.crew if each.works]
    if not working:
        told = f"{counted(len(status.crew), 'node')} up, and none of them works (--no-workers)"
        return terminal.style(told, "yellow")
    return f"up {spoken_duration(status.now - since)} ({counted(len(working), 'node')}: {hosts_of(working)})"


def _today(terminal: Terminal, status: Status) -> list[str]:
    """today $3.41 of $20"""
    if status.today is None:
        return []
    used, most = (f"${number:,.2f}".removesuffix(".00") for number in status.today)
    told = f"today {used} of {most}"
    return [terminal.style(told, "yellow") if status.today[0] >= status.today[1] else told]


def _behind(terminal: Terminal, behind: timedelta | None) -> str:
    if behind is None:
        return "scheduler ok"
    if behind < SLOW:
        told = measured_duration(behind) if behind >= timedelta(milliseconds=1) else "under 1ms"
        return f"scheduler ok, {told} behind"
    return terminal.style(f"scheduler {measured_duration(behind)} behind", "yellow")


def _group(
    terminal: Terminal,
    title: str,
    colour: str,
    rows: Sequence[Sequence[str]],
    remark: str = "",
    *,
    is_counted: bool = True,
) -> None:
    if not rows:
        return
    heading = f"{title} {len(rows)} {remark}".strip() if is_counted else title
    terminal.say()
    terminal.say(terminal.style(heading, colour))
    kept = [index for index, column in enumerate(zip(*rows, strict=True)) if any(column)]
    shown = [[row[index] for index in kept] for row in rows[:MOST]]
    for line in terminal.lines(shown, indent="  ", shrink=(2, 3, 0, 1)):
        terminal.say(line)
    if len(rows) > MOST:
        terminal.say(f"  and {len(rows) - MOST} more")


def _running_row(each: Active, ledger: Ledger) -> list[str]:
    run = each.run
    going = measured_duration(run.spent(ledger.now))
    why = "" if run.source.value.startswith("baseline") else f"{run.source} {run.origin}".strip()
    return [printable(run.schedule), short_id(run.id), going, _usual(each), printable(why)]


def _usual(each: Active) -> str:
    if each.usual is None:
        return ""
    shortest, longest = (measured_duration(part) for part in each.usual)
    return f"usually {shortest}" if shortest == longest else f"usually {shortest} to {longest}"


def _late_row(each: Late, ledger: Ledger) -> list[str]:
    due = f"due {_near(each.due_at, ledger)}, {left(each.due_at, ledger.now)}"
    parts = [each.detail] if each.detail else []
    if each.busy_with is not None:
        parts.insert(0, f"{short_id(each.busy_with.id)} since {_near(each.busy_with.began_at, ledger)}")
    return [printable(each.schedule), due, f"{each.reason}: {', '.join(parts)}" if parts else each.reason]


def _near(moment: datetime, ledger: Ledger) -> str:
    """09:05; seconds only where there are any, for this is the narrowest of screens."""
    return near_time(moment, ledger.now, ledger.zone).removesuffix(":00")


def _failing_row(record: ScheduleRecord, ledger: Ledger) -> list[str]:
    error = " ".join(printable(record.quarantine or record.last_error or "").split())
    count = f"{record.failures} in a row" if record.failures else "broken"
    following = f"next {_near(record.next_run_at, ledger)}" if record.next_run_at else ""
    return [printable(record.label), count, error, backoff_words(record), following]


def _held_row(record: ScheduleRecord, ledger: Ledger) -> list[str]:
    if record.disabled_by is not None:
        return [printable(record.label), "○ disabled", f"by {printable(record.disabled_by)}", ""]
    until = record.paused_until
    end = "" if until is None else f" until {near_time(until, ledger.now, ledger.zone)}"
    return [
        printable(record.label),
        f"‖ paused{end}",
        f"by {printable(record.paused_by)}",
        printable(record.paused_reason),
    ]


def _next_row(record: ScheduleRecord, status: Status) -> list[str]:
    assert record.next_run_at is not None
    return [left(record.next_run_at, status.now), printable(record.label), *_pace(record, status)]


def _pace(record: ScheduleRecord, status: Status) -> tuple[str, str]:
    """Its own pace; or that of a hint, with its author and how long it holds."""
    hint = status.paces.get(record.label)
    if hint is not None and hint.every is not None:
        ends = spoken_duration(hint.expires_at - status.now)
        return f"every {format_duration(hint.every)}", printable(f"hint by {hint.origin}, {ends} left")
    trigger, source = record.plan.trigger, record.next_source
    why = "" if source is None or source.value.startswith("baseline") else f"{source} {record.next_origin}"
    return f"{trigger.describe()} {trigger.options().get('timezone', '')}".strip(), printable(why.strip())
