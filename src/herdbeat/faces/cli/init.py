"""`herdbeat init`: a fleet file to begin with, and everything around it that one would forget."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from herdbeat.app import file_schema
from herdbeat.config.find import NATIVE_FILES, fleet_in
from herdbeat.config.starters import SCHEMA, STARTERS, Starter, starter_text
from herdbeat.errors import Conflict, HerdbeatError, UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given, guess
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.world import World

STATE = ".herdbeat/"
_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(slots=True)
class Made:
    """What was written, in the order it was."""

    folder: Path
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def note(self, did: str, name: str, what: str) -> None:
        self.rows.append((did, name, what))


def run(given: Given, world: World) -> int:
    starter = _starter(given, world)
    folder = (world.folder / (given.word(0) or "")).absolute()
    existing = fleet_in(folder)
    if existing is not None and not given.has(flags.FORCE):
        raise Conflict(
            f"There is a fleet already: {existing}.",
            hint="Check it with herdbeat validate, or write over it with --force.",
        )
    made = Made(folder)
    try:
        _write(made, starter)
    except OSError as error:
        raise HerdbeatError(
            f"{error.filename}: {error.strerror}.", hint="Choose a folder that you may write in."
        ) from error
    _show(given, world, made, starter)
    return 0


def _starter(given: Given, world: World) -> Starter:
    name = given.value(flags.TEMPLATE)
    if name is None:
        name = _asked(world)
    return next(each for each in STARTERS if each.name == name)


def _asked(world: World) -> str:
    """By number or by name; the first one if nothing is said. Raises UsageError where nobody can be asked."""
    names = [each.name for each in STARTERS]
    if not world.can_ask or world.stdin is None:
        raise UsageError("Nobody can be asked what to schedule here.", hint=f"Write --template {', '.join(names)}.")
    rows = [[f"{number}", each.name, each.meaning] for number, each in enumerate(STARTERS, 1)]
    for line in ["What do you want to schedule?", *world.terminal.lines(rows, indent="  ")]:
        world.terminal.complain(line)
    world.terminal.err.write("[1] ")
    world.terminal.err.flush()
    said = world.stdin.readline().strip().lower() or "1"
    if said.isdecimal() and 0 < int(said[:3]) <= len(names):
        return names[int(said) - 1]
    near = said if said in names else guess(said, names)
    if near is None:
        raise UsageError(f'There is no template "{printable(said)[:40]}".', hint=f"Write {', '.join(names)}.")
    return near


def _write(made: Made, starter: Starter) -> None:
    folder = made.folder
    folder.mkdir(parents=True, exist_ok=True)
    file = fleet_in(folder) or folder / NATIVE_FILES[0]
    file = file if file.name in NATIVE_FILES else folder / NATIVE_FILES[0]
    file.write_text(starter_text(starter.name, _fleet_name(folder)), encoding="utf-8")
    made.note("Created", file.name, starter.meaning)
    schema = folder / SCHEMA
    schema.parent.mkdir(mode=0o700, exist_ok=True)
    schema.write_text(json.dumps(file_schema("fleet"), indent=2) + "\n", encoding="utf-8")
    made.note("Created", SCHEMA, "so that editors complete its keys")
    ignore = folder / ".gitignore"
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.exists() else []
    if not {STATE, STATE.rstrip("/"), f"/{STATE}"} & {line.strip() for line in lines}:
        ignore.write_text("".join(f"{line}\n" for line in (*lines, STATE)), encoding="utf-8")
        made.note("Added", STATE, "to .gitignore; the ledger is not for git")


def _fleet_name(folder: Path) -> str:
    return _NAME.sub("-", folder.name).strip("-_") or "my-fleet"


def _show(given: Given, world: World, made: Made, starter: Starter) -> None:
    if given.has(flags.JSON):
        written = [{"did": did.lower(), "name": name} for did, name, _ in made.rows]
        world.terminal.say(json.dumps({"folder": str(made.folder), "template": starter.name, "written": written}))
        return
    for line in world.terminal.lines([*made.rows, *_next(world, made, starter)], shrink=(2,)):
        world.terminal.say(line)


def _next(world: World, made: Made, starter: Starter) -> Iterator[tuple[str, str, str]]:
    if starter.needs:
        yield "Needs", starter.needs, ""
    here = world.folder.absolute()
    if made.folder != here:
        folder = made.folder.relative_to(here) if made.folder.is_relative_to(here) else made.folder
        yield "Next", f"cd {folder}", ""
    yield "Next", "herdbeat validate", "is it right?"
    yield "Next", "herdbeat next", "when would it run?"
    yield "Next", "herdbeat up", "run it"
