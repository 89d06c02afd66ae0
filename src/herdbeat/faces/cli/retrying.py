"""`herdbeat retry`: run again what failed, as one more attempt at the same beat."""

import json
import time
from typing import Any

from herdbeat.domain.ids import from_short_id, short_id
from herdbeat.domain.records import RunRecord
from herdbeat.errors import Conflict, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.changing import elsewhere
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.marks import STATUSES
from herdbeat.faces.cli.person import person, reason_of
from herdbeat.faces.cli.reaching import reach
from herdbeat.faces.cli.run_follow import follow
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.world import World
from herdbeat.service.meant import meant, newest_run
from herdbeat.service.retrying import retry_for_later
from herdbeat.store.reader import Filter

REFUSED = 1
PATIENCE = 2.0
LOOK = 0.02

Item = dict[str, Any]


def retry(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        runs = _runs(given, ledger)
        if given.has(flags.DRY_RUN):
            return _show_plan(given, world, runs)
        items, is_served = _carry_out(given, world, ledger, runs)
        if given.has(flags.WAIT) and not is_served:
            raise Conflict("Nothing runs here: it is written down.", hint="It starts with the next: herdbeat up")
        status = _tell(given, world, ledger, items, is_served=is_served)
        return REFUSED if any(not item["success"] for item in items) else status


def _runs(given: Given, ledger: Ledger) -> list[RunRecord]:
    """What each word means: that run, or the newest of each schedule."""
    runs: dict[int, RunRecord] = {}
    for word in given.words:
        found = meant(ledger.opened(), word)
        for run in [found.run] if found.run else [newest_run(ledger.opened(), each) for each in found.schedules]:
            runs[run.id] = run
    if given.has(flags.WAIT) and len(runs) > 1:
        raise UsageError("--wait follows one run.", hint="Name one run, or leave --wait out.")
    return list(runs.values())


def _carry_out(given: Given, world: World, ledger: Ledger, runs: list[RunRecord]) -> tuple[list[Item], bool]:
    ids, who, reason = [run.id for run in runs], person(world), reason_of(given)
    force = given.has(flags.FORCE)
    answer, is_served = reach(
        ledger,
        {"do": "retry", "runs": ids, "who": who, "reason": reason, "force": force},
        lambda: {"items": retry_for_later(ledger.path, ledger.now, ids, who=who, reason=reason, force=force)},
    )
    items: list[Item] = answer["items"]
    return items, is_served


def _tell(given: Given, world: World, ledger: Ledger, items: list[Item], *, is_served: bool) -> int:
    is_json, status = given.has(flags.JSON), 0
    for item in items:
        found = _attempt(ledger, item, waits=given.has(flags.WAIT)) if item["success"] and is_served else None
        item["run"] = None if found is None else short_id(found.id)
        if not is_json:
            world.terminal.say(_line(given, world, item, is_served=is_served))
            world.terminal.out.flush()
        if given.has(flags.WAIT) and found is not None:
            status = follow(world, ledger, found, item, is_json=is_json)
    if is_json:
        world.terminal.say(json.dumps({"items": items}, indent=2, ensure_ascii=False))
    return status


def _attempt(ledger: Ledger, item: Item, *, waits: bool) -> RunRecord | None:
    """The run that the loop makes of it. One that waits for room may take longer than we do."""
    deadline = None if waits else time.monotonic() + PATIENCE
    beat = from_short_id(item["beat"])
    while True:
        newest = next(iter(ledger.opened().runs(Filter(beat=beat, limit=1))), None)
        if newest is not None and newest.attempt >= item["attempt"]:
            return newest
        if (deadline is not None and time.monotonic() > deadline) or ledger.holder is None:
            return None
        time.sleep(LOOK)


def _line(given: Given, world: World, item: Item, *, is_served: bool) -> str:
    name = printable(item["schedule"])
    if not item["success"]:
        insist = "   Insist with --force" if item["refused"].startswith(("it succeeded", "it declined")) else ""
        return f"– {name}  {item['retries']} is not run again: {item['refused']}.{insist}"
    which = f"attempt {item['attempt']} at beat {item['beat']}, after {item['retries']}"
    if item["run"] is None:
        later = "waits for its turn" if is_served else "is written down and starts with the next: herdbeat up"
        return f"◷ {name}  {which} {later}   undo: herdbeat cancel {name}{elsewhere(given)}"
    undo = f"herdbeat cancel {item['run']}{elsewhere(given)}"
    return f"{world.terminal.style('▶', 'cyan')} {name}  {item['run']}   {which}   undo: {undo}"


def _show_plan(given: Given, world: World, runs: list[RunRecord]) -> int:
    rows = [[run.schedule, short_id(run.id), STATUSES[run.status][1], str(run.attempt + 1)] for run in runs]
    if given.has(flags.JSON):
        keys = ("schedule", "run", "status", "attempt")
        items = [dict(zip(keys, row, strict=True)) for row in rows]
        world.terminal.say(json.dumps({"what": "retry", "items": items}, indent=2, ensure_ascii=False))
        return 0
    for line in world.terminal.lines([["SCHEDULE", "RUN", "ENDED", "ATTEMPT"], *rows], shrink=(0,)):
        world.terminal.say(line)
    world.terminal.remark("Nothing was changed.")
    return 0
