"""`herdbeat init`: a fleet file to begin with, its schema for editors, and the entry in .gitignore."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from herdbeat.bootstrap.config import build_file_schema, choose_new_fleet_file, find_fleet_file
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs, closest_match
from herdbeat.cli.starters import SCHEMA_PATH, STARTERS, Starter, render_starter
from herdbeat.errors import Conflict, HerdbeatError, UsageError

STATE_DIR_ENTRY = ".herdbeat/"
_NON_NAME_CHARS = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(slots=True)
class CreatedFiles:
    """What was written, in order: action, name, description."""

    folder: Path
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, action: str, name: str, what: str) -> None:
        self.rows.append((action, name, what))


def run_init(args: ParsedArgs, context: Context) -> Output:
    starter = _choose_starter(args, context)
    folder = (context.folder / (args.positional(0) or "")).absolute()
    existing = find_fleet_file(folder)
    if existing is not None and not args.has(flags.FORCE):
        raise Conflict(
            f"There is a fleet already: {existing}.",
            hint="Check it with herdbeat validate, or write over it with --force.",
        )
    created = CreatedFiles(folder)
    try:
        _write_files(created, starter)
    except OSError as error:
        raise HerdbeatError(
            f"{error.filename}: {error.strerror}.", hint="Choose a folder that you may write in."
        ) from error
    return Output(
        json=lambda: _created_object(created, starter), is_compact=True, lines=_created_lines(context, created, starter)
    )


def _choose_starter(args: ParsedArgs, context: Context) -> Starter:
    name = args.value(flags.TEMPLATE)
    if name is None:
        name = _prompt_for_starter(context)
    return next(each for each in STARTERS if each.name == name)


def _prompt_for_starter(context: Context) -> str:
    """Return what the user chooses, by number or name; the first by default. Raises UsageError without a terminal."""
    names = [each.name for each in STARTERS]
    if not context.is_interactive or context.stdin is None:
        raise UsageError("Nobody can be asked what to schedule here.", hint=f"Write --template {', '.join(names)}.")
    rows = [[f"{number}", each.name, each.meaning] for number, each in enumerate(STARTERS, 1)]
    for line in ["What do you want to schedule?", *context.terminal.format_table(rows, indent="  ")]:
        context.terminal.error(line)
    context.terminal.err.write("[1] ")
    context.terminal.err.flush()
    answer = context.stdin.readline().strip().lower() or "1"
    if answer.isdecimal() and 0 < int(answer[:3]) <= len(names):
        return names[int(answer) - 1]
    suggestion = answer if answer in names else closest_match(answer, names)
    if suggestion is None:
        raise UsageError(f'There is no template "{printable(answer)[:40]}".', hint=f"Write {', '.join(names)}.")
    return suggestion


def _write_files(created: CreatedFiles, starter: Starter) -> None:
    folder = created.folder
    folder.mkdir(parents=True, exist_ok=True)
    file = choose_new_fleet_file(folder)
    file.write_text(render_starter(starter.name, _fleet_name(folder)), encoding="utf-8")
    created.add("Created", file.name, starter.meaning)
    schema = folder / SCHEMA_PATH
    schema.parent.mkdir(mode=0o700, exist_ok=True)
    schema.write_text(json.dumps(build_file_schema("fleet"), indent=2) + "\n", encoding="utf-8")
    created.add("Created", SCHEMA_PATH, "so that editors complete its keys")
    ignore = folder / ".gitignore"
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.exists() else []
    if not {STATE_DIR_ENTRY, STATE_DIR_ENTRY.rstrip("/"), f"/{STATE_DIR_ENTRY}"} & {line.strip() for line in lines}:
        ignore.write_text("".join(f"{line}\n" for line in (*lines, STATE_DIR_ENTRY)), encoding="utf-8")
        created.add("Added", STATE_DIR_ENTRY, "to .gitignore; the ledger is not for git")


def _fleet_name(folder: Path) -> str:
    return _NON_NAME_CHARS.sub("-", folder.name).strip("-_") or "my-fleet"


def _created_object(created: CreatedFiles, starter: Starter) -> dict[str, object]:
    written = [{"did": action.lower(), "name": name} for action, name, _ in created.rows]
    return {"folder": str(created.folder), "template": starter.name, "written": written}


def _created_lines(context: Context, created: CreatedFiles, starter: Starter) -> list[str]:
    return context.terminal.format_table([*created.rows, *_next_steps(context, created, starter)], shrink=(2,))


def _next_steps(context: Context, created: CreatedFiles, starter: Starter) -> Iterator[tuple[str, str, str]]:
    if starter.needs:
        yield "Needs", starter.needs, ""
    here = context.folder.absolute()
    if created.folder != here:
        folder = created.folder.relative_to(here) if created.folder.is_relative_to(here) else created.folder
        yield "Next", f"cd {folder}", ""
    yield "Next", "herdbeat validate", "is it right?"
    yield "Next", "herdbeat next", "when would it run?"
    yield "Next", "herdbeat up", "run it"
