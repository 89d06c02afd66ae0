"""`herdbeat status`: how is the fleet? Empty groups are not printed."""

import json
from collections.abc import Sequence

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import measured_duration, spoken_duration
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.marks import counted, near_time
from herdbeat.faces.cli.terminal import Terminal, printable
from herdbeat.faces.cli.times import left
from herdbeat.faces.cli.world import World
from herdbeat.service.status import Active, Late, Status, read_status, status_object

CHECK_FAILED = 6
MOST = 10
"""Rows of a group. Who has more to look at finds them with `beats`, `runs` and `--json`."""


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        status = _status(ledger)
        if given.has(flags.JSON):
            answer = status_object(status, ledger.fleet.name)
            world.terminal.say(json.dumps(answer, indent=2, ensure_ascii=False))
        else:
            _show(world.terminal, ledger, status)
    return CHECK_FAILED if given.has(flags.CHECK) and status.needs_a_look else 0


def _status(ledger: Ledger) -> Status:
    if ledger.reader is None:
        return Status(now=ledger.now, pid=ledger.holder, node=None, schedules=len(ledger.fleet.schedules))
    return read_status(ledger.reader, ledger.now, ledger.holder)


def _show(terminal: Terminal, ledger: Ledger, status: Status) -> None:
    name = terminal.style(printable(ledger.fleet.name), "bold")
    terminal.say(f"{name}   {_scheduler(terminal, ledger, status)}   {counted(status.schedules, 'schedule')}")
    if status.schedules and not status.needs_a_look and status.pid:
        terminal.say(terminal.style(f"all {counted(status.schedules, 'schedule')} on time", "green"))
    _group(terminal, "RUNNING", "cyan", [_running_row(each, status) for each in status.running])
    _group(terminal, "LATE", "yellow", [_late_row(each, ledger) for each in status.late])
    _group(terminal, "FAILED", "red", [_failing_row(each, ledger) for each in status.failing], "not recovered")
    _group(terminal, "NEXT", "bold", [_next_row(each, status) for each in status.soon], is_counted=False)
    if status.needs_a_look:
        worst = status.late[0].schedule if status.late else status.failing[0].label
        terminal.say()
        terminal.say(terminal.style(f"why?  herdbeat explain {printable(worst)}", "dim"))


def _scheduler(terminal: Terminal, ledger: Ledger, status: Status) -> str:
    since = status.since
    if status.pid is not None:
        return f"up {spoken_duration(status.now - since)} (pid {status.pid})" if since else f"up (pid {status.pid})"
    told = f"since {near_time(since, status.now, ledger.zone)}" if since else "it never was"
    return terminal.style(f"scheduler: not running ({told})", "yellow")


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
    for line in terminal.lines(shown, indent="  ", shrink=(2, 3, 0)):
        terminal.say(line)
    if len(rows) > MOST:
        terminal.say(f"  and {len(rows) - MOST} more")


def _running_row(each: Active, status: Status) -> list[str]:
    run = each.run
    going = measured_duration(status.now - (run.started_at or run.claimed_at))
    usual = f"usually {measured_duration(each.usual[0])} to {measured_duration(each.usual[1])}" if each.usual else ""
    why = run.origin if not run.source.is_clock else ""
    return [printable(run.schedule), short_id(run.id), going, usual, f"{run.source} {why}".strip()]


def _late_row(each: Late, ledger: Ledger) -> list[str]:
    due = f"due {near_time(each.due_at, ledger.now, ledger.zone)}, {left(each.due_at, ledger.now)}"
    return [printable(each.schedule), due, f"{each.reason}: {each.detail}" if each.detail else each.reason]


def _failing_row(record: ScheduleRecord, ledger: Ledger) -> list[str]:
    error = " ".join(printable(record.quarantine or record.last_error or "").split())
    following = f"next {near_time(record.next_run_at, ledger.now, ledger.zone)}" if record.next_run_at else ""
    return [printable(record.label), f"{record.failures} in a row", error, following]


def _next_row(record: ScheduleRecord, status: Status) -> list[str]:
    assert record.next_run_at is not None
    trigger = record.plan.trigger
    zone = trigger.options().get("timezone", "")
    why = "" if record.next_source is None or record.next_source.value.startswith("baseline") else record.next_source
    return [left(record.next_run_at, status.now), printable(record.label), f"{trigger.describe()} {zone}".strip(), why]
