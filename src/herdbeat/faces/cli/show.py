"""`herdbeat show`: everything about one target, schedule, run or beat."""

import json
from typing import assert_never

from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.ledger import Ledger, open_ledger
from herdbeat.faces.cli.show_run import log_path, show_beat, show_run
from herdbeat.faces.cli.show_schedule import show_schedule, show_target
from herdbeat.faces.cli.world import World
from herdbeat.service.objects import Json
from herdbeat.service.showing import (
    Shown,
    ShownBeat,
    ShownRun,
    ShownSchedule,
    ShownTarget,
    find_shown,
    shown_beat_object,
    shown_run_object,
    shown_schedule_object,
    target_object,
)


def run(given: Given, world: World) -> int:
    with open_ledger(given, world) as ledger:
        shown = find_shown(ledger.opened(), given.words[0], ledger.now)
        if given.has(flags.JSON):
            world.terminal.say(json.dumps(_object(ledger, shown), indent=2, ensure_ascii=False))
        else:
            _show(world, ledger, shown)
    return 0


def _show(world: World, ledger: Ledger, shown: Shown) -> None:
    match shown:
        case ShownTarget():
            show_target(world.terminal, ledger, shown)
        case ShownSchedule():
            show_schedule(world.terminal, ledger, shown)
        case ShownRun():
            show_run(world.terminal, ledger, shown)
        case ShownBeat():
            show_beat(world.terminal, ledger, shown)
        case never:
            assert_never(never)


def _object(ledger: Ledger, shown: Shown) -> Json:
    match shown:
        case ShownTarget():
            return target_object(shown)
        case ShownSchedule():
            return shown_schedule_object(shown)
        case ShownRun():
            return {**shown_run_object(shown), "log": log_path(ledger, shown.run)}
        case ShownBeat():
            return shown_beat_object(shown)
        case never:
            assert_never(never)
