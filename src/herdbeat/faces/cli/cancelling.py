"""`herdbeat cancel`: stop runs that are going, and call off beats that wait."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import RunRecord, ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import measured_duration, spoken_duration
from herdbeat.errors import Conflict
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.changing import DECLINED, chosen, consented
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.person import person, reason_of
from herdbeat.faces.cli.reaching import reach
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.world import World
from herdbeat.service.cancelling import cancel_from_outside, cancel_run_from_outside
from herdbeat.service.meant import meant
from herdbeat.service.questions import find_run

GRACE = 7.0
"""Seconds to watch runs end: a program is killed five after it was asked to end."""

LOOK = 0.05
BATCH = 500

Item = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Who wants it, why, and how hard."""

    who: str
    reason: str
    force: bool


def cancel(given: Given, world: World) -> int:
    asked = _Asked(who=person(world), reason=reason_of(given), force=given.has(flags.FORCE))
    with open_ledger(given, world) as ledger:
        runs, schedules = _subjects(given, ledger)
        if given.has(flags.DRY_RUN):
            return _show_plan(given, world, ledger, runs, schedules)
        if not consented(given, world, f"Stops every run of {counted(len(schedules), 'schedule')}, and what waits."):
            world.terminal.remark("Nothing was changed.")
            return DECLINED
        items = _carry_out(ledger, asked, runs, schedules)
        return _tell(given, world, items, _watched(ledger, items))


def _subjects(given: Given, ledger: Ledger) -> tuple[list[RunRecord], list[ScheduleRecord]]:
    """Runs by id, schedules by everything else. Raises Conflict for a run that is over."""
    found = [meant(ledger.opened(), word) for word in given.words]
    runs = [each.run for each in found if each.run is not None]
    for run in runs:
        _refuse_ended(ledger, run)
    if runs and len(runs) == len(given.words):
        return runs, []
    words = tuple(word for word, each in zip(given.words, found, strict=True) if each.run is None)
    rest = Given(words=words, values=given.values, switches=given.switches, repeated=given.repeated)
    return runs, chosen(rest, ledger)


def _refuse_ended(ledger: Ledger, run: RunRecord) -> None:
    if run.status is not RunStatus.RUNNING:
        when = f", {spoken_duration(ledger.now - run.finished_at)} ago" if run.finished_at else ""
        name = short_id(run.id)
        raise Conflict(f"Run {name} is over: {run.status}{when}.", hint=f"Look at it: herdbeat explain {name}")


def _carry_out(ledger: Ledger, asked: _Asked, runs: list[RunRecord], schedules: list[ScheduleRecord]) -> list[Item]:
    words: Item = {"do": "cancel", "who": asked.who, "reason": asked.reason, "force": asked.force}
    items: list[Item] = []
    for run in runs:
        request = {**words, "run": run.id, "label": run.schedule}
        answer, _ = reach(ledger, request, partial(_run_from_outside, ledger, asked, run))
        items += answer["items"]
    for start in range(0, len(schedules), BATCH):
        ids = [each.id for each in schedules[start : start + BATCH]]
        answer, _ = reach(ledger, {**words, "schedules": ids}, partial(_from_outside, ledger, asked, ids))
        items += answer["items"]
    return items


def _from_outside(ledger: Ledger, asked: _Asked, ids: list[int]) -> Item:
    words = {"who": asked.who, "reason": asked.reason}
    return {"items": cancel_from_outside(ledger.path, ledger.now, ids, **words, force=asked.force)}


def _run_from_outside(ledger: Ledger, asked: _Asked, run: RunRecord) -> Item:
    words = {"who": asked.who, "reason": asked.reason}
    item = cancel_run_from_outside(ledger.path, ledger.now, run.id, run.schedule, **words, force=asked.force)
    return {"items": [item]}


def _watched(ledger: Ledger, items: list[Item]) -> dict[str, RunRecord]:
    """The runs as they are after a while: those that have ended by then say how."""
    names = [name for item in items for name in item["runs"]]
    deadline = time.monotonic() + GRACE
    while True:
        found = {name: run for name in names if (run := find_run(ledger.opened(), name)) is not None}
        if all(run.status is not RunStatus.RUNNING for run in found.values()) or time.monotonic() > deadline:
            return found
        time.sleep(LOOK)


def _tell(given: Given, world: World, items: list[Item], ended: dict[str, RunRecord]) -> int:
    if given.has(flags.JSON):
        told = [{**item, "statuses": [ended[name].status for name in item["runs"] if name in ended]} for item in items]
        world.terminal.say(json.dumps({"items": told}, indent=2, ensure_ascii=False))
        return 0
    lines = [line for item in items for line in _lines(item, ended)]
    for line in lines:
        world.terminal.say(line)
    if not lines:
        world.terminal.remark("Nothing was running or waiting; nothing changed.")
    return 0


def _lines(item: Item, ended: dict[str, RunRecord]) -> Iterator[str]:
    name = printable(item["schedule"])
    for run in item["runs"]:
        yield f"{_ending(run, name, ended.get(run))}   again: herdbeat retry {run}"
    if item["called_off"]:
        yield f"– {name}  {counted(item['called_off'], 'beat')} that waited: skipped by_request"


def _ending(name: str, label: str, run: RunRecord | None) -> str:
    if run is None or run.status is RunStatus.RUNNING:
        return f"● {label}  {name} is told to stop, and has not ended yet. Kill it with: herdbeat cancel {name} --force"
    spent = measured_duration(run.spent(run.finished_at)) if run.finished_at else ""
    return f"– {label}  {name} {run.status} after {spent}"


def _show_plan(
    given: Given, world: World, ledger: Ledger, runs: list[RunRecord], schedules: list[ScheduleRecord]
) -> int:
    rows = [[run.schedule, short_id(run.id), "1", "0"] for run in runs]
    rows += [[each.label, "", str(each.running), str(each.waiting)] for each in schedules]
    if given.has(flags.JSON):
        keys = ("schedule", "run", "running", "waiting")
        items = [dict(zip(keys, row, strict=True)) for row in rows]
        world.terminal.say(json.dumps({"what": "cancel", "items": items}, indent=2, ensure_ascii=False))
        return 0
    for line in world.terminal.lines([["SCHEDULE", "RUN", "RUNNING", "WAITING"], *rows], shrink=(0,)):
        world.terminal.say(line)
    world.terminal.remark(f"As of {ledger.now:%H:%M:%S} UTC. Nothing was changed.")
    return 0
