"""`herdbeat init`: a fleet file from a template, its schema for editors, and the entry in .gitignore."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from herdbeat.bootstrap.config import build_file_schema, choose_new_fleet_file, find_fleet_file, prepare_state_dir
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs, closest_match
from herdbeat.errors import Conflict, HerdbeatError, UsageError

SCHEMA_PATH = ".herdbeat/schema.json"
STATE_DIR_ENTRY = ".herdbeat/"
_SCHEMA_COMMENT = f"# yaml-language-server: $schema={SCHEMA_PATH}\n"
_NON_NAME_CHARS_PATTERN = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A template. `needs` is what must exist before it can run, if anything."""

    name: str
    meaning: str
    needs: str = ""


STARTERS = (
    Starter(name="agents", meaning="an AI agent with a cron and an interval schedule", needs="claude on the PATH"),
    Starter(name="endpoints", meaning="HTTP requests, with limits and retries"),
    Starter(name="commands", meaning="local programs"),
    Starter(
        name="github",
        meaning="an agent that works through issues",
        needs="repo: in the file; tokens in .env",
    ),
    Starter(name="demo", meaning="three programs that run every few seconds"),
)


def render_starter(name: str, fleet: str) -> str:
    """Return the text of the file, for a fleet of that name."""
    text = (files("herdbeat.cli.starters") / f"{name}.yaml").read_text(encoding="utf-8")
    return _SCHEMA_COMMENT + text.replace("{ name: NAME }", f'{{ name: "{fleet}" }}', 1)


def run_init(args: ParsedArgs, context: Context) -> Output:
    starter = _choose_starter(args, context)
    folder = (context.folder / (args.positional(0) or "")).absolute()
    existing = find_fleet_file(folder)
    if existing is not None and not args.has(flags.FORCE):
        hint = "Check it with herdbeat validate, or overwrite it with --force."
        raise Conflict(f"A fleet file already exists: {existing}.", hint=hint)
    try:
        rows = _write_files(folder, starter)
    except OSError as error:
        hint = "Choose a writable folder."
        raise HerdbeatError(f"{error.filename}: {error.strerror}.", hint=hint) from error
    written = [{"did": action.lower(), "name": name} for action, name, _ in rows]
    data = {"folder": str(folder), "template": starter.name, "written": written}
    lines = context.terminal.format_table([*rows, *_next_steps(context, folder, starter)], shrink=(2,))
    return Output(json=lambda: data, lines=lines, is_compact=True)


def _choose_starter(args: ParsedArgs, context: Context) -> Starter:
    name = args.value(flags.TEMPLATE) or _prompt_for_starter(context)
    return next(each for each in STARTERS if each.name == name)


def _prompt_for_starter(context: Context) -> str:
    """Return what the user chooses, by number or name; the first by default. Raises UsageError without a terminal."""
    names = [each.name for each in STARTERS]
    if not context.is_interactive or context.stdin is None:
        raise UsageError("Not an interactive terminal.", hint=f"Choose a template: --template {'|'.join(names)}")
    rows = [[f"{number}", each.name, each.meaning] for number, each in enumerate(STARTERS, 1)]
    for line in ["What do you want to schedule?", *context.terminal.format_table(rows, indent="  ")]:
        context.terminal.error(line)
    context.terminal.err.write("Template [1]: ")
    context.terminal.err.flush()
    answer = context.stdin.readline().strip().lower() or "1"
    if answer.isdecimal() and 0 < int(answer[:3]) <= len(names):
        return names[int(answer) - 1]
    suggestion = answer if answer in names else closest_match(answer, names)
    if suggestion is None:
        raise UsageError(f'Unknown template "{printable(answer)[:40]}".', hint=f"Choose one of {', '.join(names)}.")
    return suggestion


def _write_files(folder: Path, starter: Starter) -> list[tuple[str, str, str]]:
    """Return what was written, in order: action, name, description."""
    folder.mkdir(parents=True, exist_ok=True)
    file = choose_new_fleet_file(folder)
    file.write_text(render_starter(starter.name, _fleet_name(folder)), encoding="utf-8")
    schema = folder / SCHEMA_PATH
    prepare_state_dir(schema.parent)
    schema.unlink(missing_ok=True)  # written anew, never through a link
    schema.write_text(json.dumps(build_file_schema("fleet"), indent=2) + "\n", encoding="utf-8")
    rows = [("Created", file.name, starter.meaning), ("Created", SCHEMA_PATH, "JSON Schema for editors")]
    ignore = folder / ".gitignore"
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.exists() else []
    if not {STATE_DIR_ENTRY, STATE_DIR_ENTRY.rstrip("/"), f"/{STATE_DIR_ENTRY}"} & {line.strip() for line in lines}:
        ignore.write_text("".join(f"{line}\n" for line in (*lines, STATE_DIR_ENTRY)), encoding="utf-8")
        rows.append(("Added", STATE_DIR_ENTRY, "to .gitignore; it contains the ledger"))
    return rows


def _fleet_name(folder: Path) -> str:
    return _NON_NAME_CHARS_PATTERN.sub("-", folder.name).strip("-_") or "my-fleet"


def _next_steps(context: Context, folder: Path, starter: Starter) -> Iterator[tuple[str, str, str]]:
    if starter.needs:
        yield "Needs", starter.needs, ""
    here = context.folder.absolute()
    if folder != here:
        yield "Next", f"cd {folder.relative_to(here) if folder.is_relative_to(here) else folder}", ""
    yield "Next", "herdbeat validate", "check the file"
    yield "Next", "herdbeat next", "show when it will run"
    yield "Next", "herdbeat up", "start the fleet"
