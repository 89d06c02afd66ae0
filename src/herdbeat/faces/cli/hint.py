"""`herdbeat hint`: another pace or another moment for a while; `--clear` ends them, `--list` shows them."""

import json
from collections.abc import Iterator
from datetime import timedelta

from herdbeat.domain.change import What
from herdbeat.durations import format_duration, parse_duration
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.changing import (
    DECLINED,
    Item,
    carry_out,
    chosen,
    consented,
    remark_unserved,
    same_again,
    show_json,
)
from herdbeat.faces.cli.control import REFUSED, run_act, show_plan
from herdbeat.faces.cli.control_words import outcome_lines, until_words
from herdbeat.faces.cli.future import read_future
from herdbeat.faces.cli.ledger import NEVER, Ledger, open_ledger
from herdbeat.faces.cli.marks import counted, near_time
from herdbeat.faces.cli.person import person, reason_of
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.times import left
from herdbeat.faces.cli.world import World
from herdbeat.moments import parse_moment
from herdbeat.service.acts import Clearing, Hinting
from herdbeat.service.hints import HintState, StandingHint, hint_object, stand_of

RECENT = timedelta(days=1)
"""How long ago a hint may have ended to be listed."""

_HEADINGS = ["SCHEDULE", "HINT", "BY", "STATE", "ENDS", "REASON"]
_GLYPHS = {HintState.ACTIVE: ("↯", "green"), HintState.SHADOWED: ("·", "yellow")}


def run(given: Given, world: World) -> int:
    _refuse_mixture(given)
    with open_ledger(given, world) as ledger:
        if given.has(flags.LIST):
            return _list(given, world, ledger)
        if given.has(flags.CLEAR):
            return run_act(given, world, ledger, Clearing(who=person(world), reason=reason_of(given)))
        return _give(given, world, ledger)


def _refuse_mixture(given: Given) -> None:
    wishes = [option.names[-1] for option in (flags.EVERY, flags.AT) if given.value(option) is not None]
    asked = wishes + [option.names[-1] for option in (flags.CLEAR, flags.LIST) if given.has(option)]
    hint = "Write one of --every 20s, --at 18:00, --clear, --list."
    if not asked:
        raise UsageError("The hint says nothing.", hint=hint)
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} do not go together.", hint=hint)


def _give(given: Given, world: World, ledger: Ledger) -> int:
    records, act = chosen(given, ledger), _act(given, world, ledger)
    if given.has(flags.DRY_RUN):
        return show_plan(given, world, ledger, act, records)
    if not consented(given, world, f"Hints {counted(len(records), 'schedule')}."):
        return DECLINED
    done = carry_out(world, ledger, act, records)
    undo = f"herdbeat hint {same_again(given, done)} --clear" if done.changed else ""
    if given.has(flags.JSON):
        show_json(world, done, undo)
        return REFUSED if done.refused else 0
    for item in done.changed:
        for line in _given_lines(ledger, item):
            world.terminal.say(line)
    for line in outcome_lines(ledger, What.HINT, type(done)(items=done.refused, is_served=done.is_served), ""):
        world.terminal.complain(line)
    if undo:
        world.terminal.remark(f"undo: {undo}")
    remark_unserved(world, ledger, done)
    return REFUSED if done.refused else 0


def _act(given: Given, world: World, ledger: Ledger) -> Hinting:
    every, at, lasts = given.value(flags.EVERY), given.value(flags.AT), given.value(flags.FOR)
    return Hinting(
        who=person(world),
        reason=reason_of(given),
        every=None if every is None else parse_duration(every).total_seconds(),
        at=None if at is None else read_future(at, ledger.now, ledger.zone),
        lasts=None if lasts is None else parse_duration(lasts).total_seconds(),
    )


def _given_lines(ledger: Ledger, item: Item) -> Iterator[str]:
    hint, following = item["after"], item["next_run_at"]
    until = until_words(parse_moment(hint["until"]), ledger.now, ledger.zone)
    wish = f"every {hint['every']} until {until}" if hint["every"] else f"at {_near(ledger, hint['at'])}"
    told = f"next {_near(ledger, following)}" if following else "no next run is planned"
    if following is None and item["running"]:
        told = "it is running: decided when that run ends"
    yield f"{printable(item['schedule'])}  {wish}, by {printable(hint['by'])}   {told}"
    for note in item["notes"]:
        yield f"  {printable(note)}"


def _near(ledger: Ledger, text: str) -> str:
    return near_time(parse_moment(text), ledger.now, ledger.zone)


def _list(given: Given, world: World, ledger: Ledger) -> int:
    if ledger.reader is None:
        found = []
    else:
        is_named = bool(given.words or given.every_value(flags.TAG) or given.every_value(flags.GROUP))
        ids = [each.id for each in chosen(given, ledger)] if is_named else None
        found = stand_of(ledger.reader.hints(ids, ended_since=ledger.now - RECENT), ledger.now)
    if given.has(flags.JSON):
        world.terminal.say(json.dumps({"items": [hint_object(each) for each in found]}, indent=2, ensure_ascii=False))
        return 0
    if not found:
        world.terminal.remark(NEVER if ledger.reader is None else "No hints there.")
        return 0
    for line in world.terminal.lines([_HEADINGS, *(_row(world, ledger, each) for each in found)], shrink=(5, 0)):
        world.terminal.say(line)
    return 0


def _row(world: World, ledger: Ledger, standing: StandingHint) -> list[str]:
    hint = standing.record
    glyph, colour = _GLYPHS.get(standing.state, ("–", "dim"))
    wish = f"at {near_time(hint.at, ledger.now, ledger.zone)}" if hint.at else ""
    ended = hint.ended_at or hint.expires_at
    state = f"cleared by {hint.ended_by}" if standing.state is HintState.CLEARED else standing.state.value
    return [
        printable(hint.schedule),
        wish or f"every {format_duration(hint.every or timedelta(0))}",
        printable(hint.origin),
        world.terminal.style(f"{glyph} {printable(state)}", colour),
        left(ended, ledger.now),
        printable(hint.reason),
    ]
