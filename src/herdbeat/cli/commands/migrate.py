"""`herdbeat import` and `herdbeat export`: the schedules of other tools as a fleet file, and a fleet as one file."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat.bootstrap import migration
from herdbeat.bootstrap.config import choose_new_fleet_file
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.dispatch import ask
from herdbeat.cli.fleet_handle import open_fleet_handle
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.output.terminal import format_count, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import Conflict, HerdbeatError, UsageError
from herdbeat.service.serialize import serialize_document

if TYPE_CHECKING:
    from herdbeat.bootstrap.migration import FleetDocument, MigrationNote

_MARKS = {"not_carried": ("✗", "red"), "changed": ("~", "yellow"), "hint": ("·", "dim")}


def run_import(args: ParsedArgs, context: Context) -> Output:
    document = _read_foreign(args, context)
    if not document.targets:
        text = "\n".join(_describe_note(note) for note in document.all_notes if note.where is not None)
        origin = document.origin or ", ".join(args.positionals[1:]) or args.positionals[0]
        raise UsageError(f"{origin}: nothing to import.", hint=text or "There are no schedules in it.")
    return _write(args, context, document)


def run_export(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    document = migration.export_fleet(handle, args.value(flags.CONFIG), context.environ, context.folder)
    return _write(args, context, document, is_export=True)


def _read_foreign(args: ParsedArgs, context: Context) -> "FleetDocument":
    kind, *paths = args.positionals
    place = (paths, context.environ, context.folder)
    _refuse_foreign_flags(args, kind)
    match kind:
        case "crontab":
            text = context.stdin.read() if "-" in paths and context.stdin is not None else ""
            return migration.import_crontab(*place, has_users=args.has(flags.SYSTEM), stdin_text=text)
        case "systemd":
            return migration.import_systemd(*place)
        case "apscheduler":
            return migration.import_apscheduler(*place, table=args.value(flags.TABLE))
        case "herdctl":
            return migration.import_herdctl(*place)
        case _:
            return migration.import_agentd(*place)


def _refuse_foreign_flags(args: ParsedArgs, kind: str) -> None:
    for option, owner in ((flags.SYSTEM, "crontab"), (flags.TABLE, "apscheduler")):
        is_given = args.value(option) is not None if option.value else args.has(option)
        if is_given and kind != owner:
            raise UsageError(f"{option.names[-1]} belongs to herdbeat import {owner}.", hint="Remove it.")


def _write(args: ParsedArgs, context: Context, document: "FleetDocument", *, is_export: bool = False) -> Output:
    text = migration.render_fleet(document)
    named = args.value(flags.OUTPUT)
    is_printed = args.has(flags.DRY_RUN) or (is_export and named is None)
    file = None if is_printed else _choose_file(context, named)
    if file is not None:
        _write_file(args, context, file, text)
    return Output(
        json=lambda: serialize_document(document, text, None if file is None else str(file)),
        lines=_lines(context, document, text, file, is_export=is_export),
    )


def _choose_file(context: Context, named: str | None) -> Path:
    return choose_new_fleet_file(context.folder.absolute()) if named is None else (context.folder / named).absolute()


def _write_file(args: ParsedArgs, context: Context, file: Path, text: str) -> None:
    """Write the file; one that exists only after a yes, or with --force. Raises Conflict, HerdbeatError."""
    is_new = not file.exists() and not file.is_symlink()
    if not is_new and not args.has(flags.FORCE):
        hint = "Write to another file with --output FILE, look first with --dry-run, or overwrite it with --force."
        if not context.is_interactive or context.stdin is None:
            raise Conflict(f"{file} already exists.", hint=hint)
        if not ask(context, f"{file} already exists and would be overwritten.", context.stdin):
            raise Conflict(f"{file} was not changed.", hint=hint)
    try:
        with file.open("x" if is_new else "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise HerdbeatError(f"{file}: {error.strerror}.", hint="Choose a folder that you can write to.") from error


def _lines(
    context: Context, document: "FleetDocument", text: str, file: Path | None, *, is_export: bool
) -> Iterator[str]:
    if file is None:
        yield text.removesuffix("\n")
    else:
        counts = Counter(target.kind.section for target in document.targets)
        parts = [format_count(number, section.removesuffix("s")) for section, number in counts.items()]
        yield f"Wrote {printable(str(file))}: {', '.join(parts)}."
    for note in document.all_notes:
        mark, color = _MARKS[note.kind]
        yield Notice(f"{context.terminal.style_error(mark, color)} {printable(_describe_note(note))}")
        if note.hint:
            yield Notice(f"    {printable(note.hint)}")
    if file is not None and document.home and file.parent != Path(document.home):
        yield Notice(
            f"Relative paths in it count from {printable(document.home)}: move the file there before you use it."
        )
    if file is not None and not is_export:
        yield Notice("Next: herdbeat validate, then herdbeat next. Nothing runs before herdbeat up.")


def _describe_note(note: "MigrationNote") -> str:
    place = f"{note.where.file}:{note.where.line}  " if note.where is not None else ""
    return f"{place}{note.message}"
