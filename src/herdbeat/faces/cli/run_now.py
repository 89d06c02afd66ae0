"""`herdbeat run`: a beat by hand, and if wanted its output until it ends."""

import json
import time
from typing import Any

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import RunRecord
from herdbeat.errors import Conflict, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.marks import near_time
from herdbeat.faces.cli.person import person
from herdbeat.faces.cli.run_follow import follow
from herdbeat.faces.cli.world import World
from herdbeat.faces.local.client import NobodyThere, ask
from herdbeat.moments import parse_moment
from herdbeat.service.firing import fire_for_later
from herdbeat.service.questions import run_of_beat
from herdbeat.service.selecting import parts_of

REFUSED = 1
LOOK = 0.02
PATIENCE = 2.0
"""Seconds for the loop to take the beat up, so that the run can be named. It takes milliseconds."""


def run(given: Given, world: World) -> int:
    selector = _selector(given)
    with open_ledger(given, world) as ledger:
        ledger.opened()
        answer = _ask(ledger, selector, given, person(world))
        if answer is None and ledger.is_shared and ledger.holder is not None:
            queue = given.has(flags.QUEUE)
            answer = fire_for_later(ledger.path, ledger.now, selector, origin=person(world), queue=queue)
        if answer is None:
            return _for_later(given, world, ledger, selector)
        if not answer["success"]:
            return _refused(given, world, answer)
        return _started(given, world, ledger, answer)


def _selector(given: Given) -> str:
    target, name = parts_of(given.words[0])
    wanted = given.value(flags.SCHEDULE)
    if wanted is not None and name is not None:
        raise UsageError("TARGET/SCHEDULE and --schedule say the same thing.", hint="Name the schedule once.")
    name = wanted or name
    return target if name is None else f"{target}/{name}"


def _ask(ledger: Ledger, selector: str, given: Given, origin: str) -> dict[str, Any] | None:
    """None if nothing runs here."""
    request = {"do": "run", "schedule": selector, "origin": origin, "queue": given.has(flags.QUEUE)}
    try:
        return ask(ledger.state_dir, request)
    except NobodyThere:
        return None


def _for_later(given: Given, world: World, ledger: Ledger, selector: str) -> int:
    if given.has(flags.WAIT):
        where = "No node runs this fleet" if ledger.is_shared else "Nothing runs here"
        raise Conflict(f"{where}, so there is nothing to wait for.", hint="Start it with: herdbeat up")
    answer = fire_for_later(ledger.path, ledger.now, selector, origin=person(world))
    if given.has(flags.JSON):
        world.terminal.say(json.dumps(answer))
    else:
        world.terminal.say(f"◷ {answer['schedule']}  is written down and starts with the next: herdbeat up")
    return 0


def _refused(given: Given, world: World, answer: dict[str, Any]) -> int:
    reason = answer["skip_reason"]
    if given.has(flags.JSON):
        world.terminal.say(json.dumps(answer))
        return REFUSED
    why = f"{answer['running']} of {answer['max_concurrent']} running"
    world.terminal.complain(f"– {answer['schedule']}  refused: {reason} ({why})")
    world.terminal.complain("  Let it wait for its turn with --queue, or see: herdbeat status")
    return REFUSED


def _started(given: Given, world: World, ledger: Ledger, answer: dict[str, Any]) -> int:
    is_json, waits = given.has(flags.JSON), given.has(flags.WAIT)
    found = _first_run(ledger, str(answer["beat"]), None if waits else PATIENCE)
    answer["run"] = None if found is None else short_id(found.id)
    if not is_json:
        world.terminal.say(_headline(world, ledger, answer))
        world.terminal.out.flush()
    status = follow(world, ledger, found, answer, is_json=is_json) if waits and found is not None else 0
    if is_json:
        world.terminal.say(json.dumps(answer))
    return status


def _first_run(ledger: Ledger, beat: str, patience: float | None) -> RunRecord | None:
    """The run that the loop makes of the beat. A queued one may wait longer than we do."""
    deadline = None if patience is None else time.monotonic() + patience
    while (found := run_of_beat(ledger.opened(), beat)) is None:
        if (deadline is not None and time.monotonic() > deadline) or _is_deserted(ledger):
            return None
        time.sleep(LOOK)
    return found


def _is_deserted(ledger: Ledger) -> bool:
    if ledger.is_shared:
        return ledger.holder is None
    try:
        ask(ledger.state_dir, {"do": "ping"})
    except NobodyThere:
        return True
    return False


def _headline(world: World, ledger: Ledger, answer: dict[str, Any]) -> str:
    who = person(world).partition(":")[2]
    following = answer["next_run_at"]
    keeps = f"   (the schedule keeps its next run {_near(following, ledger)})" if following else ""
    if answer["run"] is None:
        return f"◷ {answer['schedule']}  waits: {answer['waits_for'] or 'not taken up yet'}   manual by {who}{keeps}"
    return f"{world.terminal.style('▶', 'cyan')} {answer['schedule']}  {answer['run']}   manual by {who}{keeps}"


def _near(moment: str, ledger: Ledger) -> str:
    return near_time(parse_moment(moment), ledger.now, ledger.zone)
