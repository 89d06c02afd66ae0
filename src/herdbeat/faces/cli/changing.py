"""Carrying out a change: choose, ask if it is severe, then through the socket or, if nothing runs, into the ledger."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from herdbeat.domain.records import ScheduleRecord
from herdbeat.errors import NotFound, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.crew import effect_words
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import counted
from herdbeat.faces.cli.reaching import reach
from herdbeat.faces.cli.world import World
from herdbeat.service.acts import Act, act_to_json
from herdbeat.service.changing import BATCH, change_for_later
from herdbeat.service.selecting import Selection, select

DECLINED = 1

NAMED = 10
"""Schedules that an undo names one by one."""

Item = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of each schedule, and whether the fleet was running."""

    items: list[Item]
    is_served: bool

    @property
    def changed(self) -> list[Item]:
        return [each for each in self.items if each["changed"]]

    @property
    def refused(self) -> list[Item]:
        return [each for each in self.items if each["refused"]]


def selection_of(given: Given) -> Selection:
    return Selection(
        names=given.words,
        tags=given.every_value(flags.TAG),
        groups=given.every_value(flags.GROUP),
        everything=given.has(flags.ALL),
    )


def same_again(given: Given, done: Done) -> str:
    """What was changed, in words that a shell takes: what an undo is about.

    As it was selected; but if some of the selection were so before, an undo of all would change those, too. Then they
    are named one by one, while that is readable.
    """
    changed = [str(each["schedule"]) for each in done.changed]
    if len(changed) < len(done.items) and len(changed) <= NAMED:
        words = [shlex.quote(each) for each in changed]
    else:
        words = [
            *(shlex.quote(each) for each in given.words),
            *(f"--tag {shlex.quote(each)}" for each in given.every_value(flags.TAG)),
            *(f"--group {shlex.quote(each)}" for each in given.every_value(flags.GROUP)),
            *(["--all"] if given.has(flags.ALL) else []),
        ]
    return " ".join(words) + elsewhere(given)


def elsewhere(given: Given) -> str:
    """Of which fleet, if that had to be said: an undo that looks for it here would find another one, or none."""
    path = given.value(flags.CONFIG)
    return "" if path is None else f" --config {shlex.quote(path)}"


def chosen(given: Given, ledger: Ledger) -> list[ScheduleRecord]:
    """Raises NotFound or UsageError. What is only in the files is told apart from what is nowhere."""
    try:
        return select(ledger.opened(), selection_of(given))
    except NotFound:
        written = next((told for each in given.words if (told := ledger.only_written(each))), None)
        if written is None:
            raise
        raise written from None


def consented(given: Given, world: World, sentence: str) -> bool:
    """Severe acts ask first: those on everything."""
    return not given.has(flags.ALL) or agreed(given, world, sentence)


def agreed(given: Given, world: World, sentence: str) -> bool:
    """Somebody has said yes. Raises UsageError where nobody can be asked."""
    if given.has(flags.YES):
        return True
    if not world.can_ask or world.stdin is None:
        raise UsageError(f"{sentence} Nobody can be asked here.", hint="Say so with --yes; --dry-run shows them.")
    world.terminal.err.write(f"{sentence} Continue? [y/N] ")
    world.terminal.err.flush()
    return world.stdin.readline().strip().lower() in ("y", "yes")


def carry_out(
    world: World, ledger: Ledger, act: Act, records: Sequence[ScheduleRecord], *, cancel_running: bool = False
) -> Done:
    """In bounded transactions: a change of ten thousand schedules does not hold up the beats that are due meanwhile."""
    items: list[Item] = []
    is_served = False
    for start in range(0, len(records), BATCH):
        ids = [each.id for each in records[start : start + BATCH]]
        found, is_served = _batch(ledger, act, ids, cancel_running=cancel_running)
        items += found
        _show_progress(world, len(items), len(records))
    return Done(items=items, is_served=is_served)


def show_json(world: World, done: Done, undo: str) -> None:
    answer = {"items": done.items, "changed": len(done.changed), "served": done.is_served, "undo": undo}
    world.terminal.say(json.dumps(answer, indent=2, ensure_ascii=False))


def remark_unserved(world: World, ledger: Ledger, done: Done) -> None:
    if not done.is_served and done.changed:
        world.terminal.remark(effect_words(ledger))


def _batch(ledger: Ledger, act: Act, ids: list[int], *, cancel_running: bool) -> tuple[list[Item], bool]:
    request = {"do": "change", "act": act_to_json(act), "schedules": ids, "cancel_running": cancel_running}
    answer, is_served = reach(
        ledger,
        request,
        lambda: {"items": change_for_later(ledger.path, ledger.clock.now(), act, ids, cancel_running=cancel_running)},
    )
    items: list[Item] = answer["items"]
    return items, is_served


def _show_progress(world: World, done: int, total: int) -> None:
    err = world.terminal.err
    if total > BATCH and err.isatty() and not world.terminal.is_quiet:
        err.write(f"\r{done} of {counted(total, 'schedule')}" + ("\n" if done >= total else ""))
        err.flush()
