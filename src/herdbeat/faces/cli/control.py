"""`herdbeat pause`, `resume`, `disable`, `enable` and `reset`: one shape, five acts."""

import json
from datetime import datetime

from herdbeat.domain.records import ScheduleRecord
from herdbeat.durations import parse_duration
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.changing import (
    DECLINED,
    carry_out,
    chosen,
    consented,
    remark_unserved,
    show_json,
)
from herdbeat.faces.cli.control_words import outcome_lines
from herdbeat.faces.cli.future import read_future
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.person import person, reason_of
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.undoing import undo_of
from herdbeat.faces.cli.world import World
from herdbeat.service.acts import Act, Disabling, Enabling, Pausing, Resetting, Resuming
from herdbeat.service.states import state_of

REFUSED = 1


def pause(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        act = Pausing(who=person(world), reason=reason_of(given), until=_until(given, ledger))
        return run_act(given, world, ledger, act)


def resume(given: Given, world: World) -> int:
    return _plain(given, world, Resuming)


def disable(given: Given, world: World) -> int:
    return _plain(given, world, Disabling)


def enable(given: Given, world: World) -> int:
    return _plain(given, world, Enabling)


def reset(given: Given, world: World) -> int:
    return _plain(given, world, Resetting)


def _plain(given: Given, world: World, kind: type[Resuming | Disabling | Enabling | Resetting]) -> int:
    with open_ledger(given, world) as ledger:
        return run_act(given, world, ledger, kind(who=person(world), reason=reason_of(given)))


def run_act(given: Given, world: World, ledger: Ledger, act: Act) -> int:
    """Choose, ask, do, tell. Exit 1 if anything was refused, or the answer was no."""
    records = chosen(given, ledger)
    if given.has(flags.DRY_RUN):
        return show_plan(given, world, ledger, act, records)
    if not consented(given, world, _sentence(given, act, records)):
        world.terminal.remark("Nothing was changed.")
        return DECLINED
    cancels = given.has(flags.CANCEL_RUNNING)
    done = carry_out(world, ledger, act, records, cancel_running=cancels)
    undo = undo_of(given, act.what, done)
    if given.has(flags.JSON):
        show_json(world, done, undo)
    else:
        for line in outcome_lines(ledger, act.what, done, undo, cancelled=cancels and done.is_served):
            world.terminal.say(line)
        remark_unserved(world, ledger, done)
    return REFUSED if done.refused else 0


def _until(given: Given, ledger: Ledger) -> datetime | None:
    lasts, until = given.value(flags.FOR), given.value(flags.UNTIL)
    if lasts is not None and until is not None:
        raise UsageError("--for and --until say the same thing.", hint="Write one of them.")
    if lasts is not None:
        return ledger.now + parse_duration(lasts)
    return None if until is None else read_future(until, ledger.now, ledger.zone)


def _sentence(given: Given, act: Act, records: list[ScheduleRecord]) -> str:
    running = sum(each.running for each in records)
    runs = ""
    if running and isinstance(act, Pausing | Disabling):
        runs = f" {counted(running, 'run')} in progress "
        runs += "will be stopped." if given.has(flags.CANCEL_RUNNING) else "may finish (--cancel-running stops them)."
    return f"{act.what.capitalize()}s {counted(len(records), 'schedule')}.{runs}"


def show_plan(given: Given, world: World, ledger: Ledger, act: Act, records: list[ScheduleRecord]) -> int:
    rows = [[printable(each.label), state_of(each, ledger.now).value] for each in records]
    if given.has(flags.JSON):
        items = [{"schedule": label, "state": state} for label, state in rows]
        world.terminal.say(json.dumps({"what": act.what, "items": items}, indent=2, ensure_ascii=False))
        return 0
    for line in world.terminal.lines([["SCHEDULE", "STATE"], *rows], shrink=(0,)):
        world.terminal.say(line)
    world.terminal.remark(f"Would {act.what} {counted(len(records), 'schedule')}. Nothing was changed.")
    return 0
