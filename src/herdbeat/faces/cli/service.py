"""`herdbeat service install`, `remove` and `status`: the fleet as a service of this user, by systemd."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from herdbeat.config.find import find_config
from herdbeat.errors import Conflict, HerdbeatError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.fleets import read
from herdbeat.faces.cli.service_unit import Unit, unit_of
from herdbeat.faces.cli.world import World

FAILED = 1
_PATIENCE = 60
_PROGRAM = (sys.executable, "-m", "herdbeat.faces.cli")


def install(given: Given, world: World) -> int:
    unit = _unit(given, world)
    if given.has(flags.PRINT):
        world.terminal.out.write(unit.text)
        return 0
    if unit.is_installed and not unit.is_ours and not given.has(flags.FORCE):
        raise Conflict(f"{unit.path} was not written by herdbeat.", hint="Look at it, or write over it with --force.")
    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        unit.path.write_text(unit.text, encoding="utf-8")
    except OSError as error:
        hint = "Show it with --print, and put it elsewhere."
        raise HerdbeatError(f"{unit.path}: {error.strerror}.", hint=hint) from error
    world.terminal.say(f"Written  {unit.path}")
    steps = [["daemon-reload"], ["enable", "--now", unit.name]]
    if not _has_manager(world):
        return _say_by_hand(world, "There is no systemd for users here. Where there is one:", steps)
    for step in steps:
        if _systemctl(world, *step).returncode:
            return _say_by_hand(world, "systemd refused. Look into it with:", [["status", unit.name]]) or FAILED
    world.terminal.say(f"Started  {unit.name}   undo: herdbeat service remove")
    world.terminal.say("Look     herdbeat status · journalctl --user -u " + unit.name.removesuffix(".service"))
    world.terminal.remark("It runs while you are logged in. For always: loginctl enable-linger")
    return 0


def remove(given: Given, world: World) -> int:
    unit = _unit(given, world)
    if not unit.is_installed:
        world.terminal.remark(f"There is no {unit.name}. Nothing was changed.")
        return 0
    if not unit.is_ours:
        raise Conflict(f"{unit.path} was not written by herdbeat.", hint="Remove it yourself, if it is yours.")
    if _has_manager(world):
        _systemctl(world, "disable", "--now", unit.name)
    unit.path.unlink()
    if _has_manager(world):
        _systemctl(world, "daemon-reload")
    world.terminal.say(f"Removed  {unit.path}. The files and the ledger stay.   undo: herdbeat service install")
    return 0


def status(given: Given, world: World) -> int:
    unit = _unit(given, world)
    state = "not installed"
    if unit.is_installed:
        state = _systemctl(world, "is-active", unit.name).stdout.strip() if _has_manager(world) else "unknown"
    is_stale = unit.is_installed and unit.path.read_text(encoding="utf-8", errors="replace") != unit.text
    if given.has(flags.JSON):
        answer = {"unit": unit.name, "path": str(unit.path), "installed": unit.is_installed, "state": state}
        world.terminal.say(json.dumps({**answer, "up_to_date": not is_stale}))
        return 0
    world.terminal.say(f"{unit.name}   {state}   {unit.path}")
    if is_stale:
        world.terminal.remark("It was written for another place or version. Write it anew: herdbeat service install")
    return 0


def _unit(given: Given, world: World) -> Unit:
    wanted = given.value(flags.CONFIG)
    _, fleet = read(wanted, world)
    found = find_config(world.folder, world.environ, None if wanted is None else Path(wanted))
    assert found is not None, "it was read a moment ago"
    return unit_of(fleet, found.absolute(), world.environ, _PROGRAM)


def _has_manager(world: World) -> bool:
    return _program(world) is not None and not _systemctl(world, "show-environment").returncode


def _program(world: World) -> str | None:
    return shutil.which("systemctl", path=world.environ.get("PATH"))


def _systemctl(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    program = _program(world)
    assert program is not None
    return subprocess.run(  # noqa: S603 - a fixed program, and words of our own
        [program, "--user", *words],
        env=dict(world.environ),
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )


def _say_by_hand(world: World, why: str, steps: list[list[str]]) -> int:
    world.terminal.remark(why)
    for step in steps:
        world.terminal.remark(f"  systemctl --user {' '.join(step)}")
    return 0
