"""Import from other schedulers, and export as one file: finds and reads what is needed, and writes nothing."""

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from herdbeat.bootstrap.config import detect_system_zone, locate_config
from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.config.export import CreatedTarget, export_created, export_files
from herdbeat.config.files import read_text
from herdbeat.config.imports.apscheduler import DEFAULT_TABLE, import_jobs, read_jobs
from herdbeat.config.imports.crontab import CrontabFile, import_crontabs, is_cron_file_name
from herdbeat.config.imports.document import FleetDocument as FleetDocument  # noqa: PLC0414 -- adapters take these here
from herdbeat.config.imports.document import MigrationNote as MigrationNote  # noqa: PLC0414
from herdbeat.config.imports.document import NoteKind
from herdbeat.config.imports.document import render_fleet as render_fleet  # noqa: PLC0414
from herdbeat.config.imports.systemd import UnitFile, import_timers, parse_unit
from herdbeat.config.locate import HERDCTL_FILE_NAMES, display_path, find_config_in_folder, is_agentd_folder
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target, is_unmanaged
from herdbeat.errors import NotFound, SourceLocation, UsageError
from herdbeat.platform import default_signals
from herdbeat.store.reader import Filter

if TYPE_CHECKING:
    from herdbeat.domain.schedule import RunSpec

CRONTAB_TIMEOUT_S = 10
_SYSTEM_CRONTABS = (Path("/etc/crontab"), Path("/etc/cron.d"))
_SYSTEM_UNIT_FOLDERS = tuple(
    Path(folder)
    for folder in ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/lib/systemd/system")
)
_USER_UNIT_FOLDERS = ("systemd/user", ".config/systemd/user", ".local/share/systemd/user")
_HERDCTL_NOTES = (
    MigrationNote(
        kind=NoteKind.HINT,
        message="herdbeat runs the files of herdctl as they are: this copy is needed only to leave herdctl.",
        hint="Import its state, too: herdbeat state --import .herdctl/state.yaml",
    ),
)
_AGENTD_NOTES = (
    MigrationNote(
        kind=NoteKind.HINT,
        message="herdbeat runs the folder of agentd as it is: this copy is needed only to leave agentd.",
        hint="In a fleet file of your own, write imports: [{ agentd: .agentd/ }] instead.",
    ),
)
MAX_EXPORTED = 1_000_000
"""Schedules and targets: more than a fleet can have."""


def import_crontab(
    paths: Sequence[str], environ: Mapping[str, str], folder: Path, *, has_users: bool, stdin_text: str = ""
) -> FleetDocument:
    """Return the fleet of crontab files; without any, of the crontab of this user. "-" is standard input.

    Raises NotFound, UsageError, and ConfigError's kin for a file that cannot be read.
    """
    zone, user = detect_system_zone(environ).key, _find_current_user()
    notes: list[MigrationNote] = []
    files = list(_iter_crontabs(paths, folder, notes, has_users=has_users, stdin_text=stdin_text))
    document = import_crontabs(files, zone, user=user)
    return replace(document, notes=(*notes, *document.notes))


def _iter_crontabs(
    paths: Sequence[str], folder: Path, notes: list[MigrationNote], *, has_users: bool, stdin_text: str
) -> Iterator[CrontabFile]:
    if not paths:
        yield CrontabFile(name="crontab", text=_list_crontab(), has_users=has_users)
    for written in paths:
        if written == "-":
            yield CrontabFile(name="crontab", text=stdin_text, has_users=has_users)
            continue
        path = (folder / written).absolute()
        for file in _list_files(path, folder):
            is_system = has_users or any(file == each or each in file.parents for each in _SYSTEM_CRONTABS)
            name = display_path(file, folder)
            if path.is_dir() and not is_cron_file_name(file.name):
                where = SourceLocation(file=name, line=1, column=1)
                message = f"cron ignores files with a name such as {file.name}; it was left out."
                hint = "Give the path of the file itself to import it."
                notes.append(MigrationNote(kind=NoteKind.HINT, message=message, hint=hint, where=where))
                continue
            yield CrontabFile(name=name, text=read_text(file, name), has_users=is_system)


def _list_files(path: Path, folder: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if not path.exists():
        raise NotFound(f'There is no file "{display_path(path, folder)}".', hint="Correct the path.")
    return [path]


def _list_crontab() -> str:
    """Return the crontab of this user, as `crontab -l` prints it."""
    program = shutil.which("crontab")
    if program is None:
        hint = "Give the path of a crontab, or - for standard input."
        raise NotFound("There is no program crontab on this machine.", hint=hint)
    try:
        with default_signals() as preexec_fn:
            done = subprocess.run(  # noqa: S603 -- the program is found by name, and gets no input
                [program, "-l"],
                capture_output=True,
                timeout=CRONTAB_TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
                preexec_fn=preexec_fn,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"crontab -l: {error}.", hint="Give the path of a crontab.") from error
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        raise NotFound(f"crontab -l: {reason}.", hint="Give the path of a crontab, or - for standard input.")
    return done.stdout.decode(errors="replace")


def import_systemd(paths: Sequence[str], environ: Mapping[str, str], folder: Path) -> FleetDocument:
    """Return the fleet of timers: files or folders; without any, all in the folders of systemd."""
    user_folders = _list_user_unit_folders(environ)
    given = [(folder / written).absolute() for written in paths]
    places = given or [each for each in (*_SYSTEM_UNIT_FOLDERS[:1], *user_folders) if each.is_dir()]
    timers = [file for place in places for file in _list_units(place, folder)]
    if not timers:
        raise NotFound("There are no .timer files there.", hint="Give the path of a timer or of its folder.")
    folders = dict.fromkeys([*(file.parent for file in timers), *user_folders, *_SYSTEM_UNIT_FOLDERS])
    services: dict[str, UnitFile] = {}
    for place in folders:
        for file in sorted(place.glob("*.service")) if place.is_dir() else ():
            if file.name not in services and file.is_file():
                services[file.name] = _read_unit(file, folder, is_user=_is_user_folder(place, user_folders))
    units = [_read_unit(file, folder, is_user=_is_user_folder(file.parent, user_folders)) for file in timers]
    return import_timers(units, services, detect_system_zone(environ).key, user=_find_current_user())


def _list_units(place: Path, folder: Path) -> list[Path]:
    if place.is_dir():
        return sorted(file for file in place.glob("*.timer") if file.is_file())
    if not place.is_file() or place.suffix != ".timer":
        name = display_path(place, folder)
        raise NotFound(f'"{name}" is not a timer.', hint="Give the path of a .timer file or of its folder.")
    return [place]


def _read_unit(file: Path, folder: Path, *, is_user: bool) -> UnitFile:
    drop_ins = sorted(file.with_name(f"{file.name}.d").glob("*.conf"))
    texts = [(display_path(each, folder), read_text(each, display_path(each, folder))) for each in (file, *drop_ins)]
    return parse_unit(file.name, texts, is_user=is_user)


def _list_user_unit_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    home = Path(environ.get("HOME") or "/")
    config = environ.get("XDG_CONFIG_HOME")
    own = (Path(config) / _USER_UNIT_FOLDERS[0],) if config else ()
    return (*own, *(home / each for each in _USER_UNIT_FOLDERS[1:]))


def _is_user_folder(place: Path, user_folders: Sequence[Path]) -> bool:
    return place in user_folders or "systemd/user" in place.as_posix()


def import_apscheduler(
    paths: Sequence[str], environ: Mapping[str, str], folder: Path, *, table: str | None = None
) -> FleetDocument:
    """Return the fleet of the jobs in a SQLite database of APScheduler 3."""
    if len(paths) != 1:
        raise UsageError("Name one database.", hint="herdbeat import apscheduler jobs.sqlite")
    written = paths[0].removeprefix("sqlite:///")
    path = (folder / written).absolute()
    if not path.is_file():
        hint = "Give the SQLite file of the SQLAlchemyJobStore. Other databases must be copied into one first."
        raise NotFound(f'There is no file "{display_path(path, folder)}".', hint=hint)
    jobs = read_jobs(path, table or DEFAULT_TABLE)
    return import_jobs(display_path(path, folder), jobs, detect_system_zone(environ).key)


def import_herdctl(paths: Sequence[str], environ: Mapping[str, str], folder: Path) -> FleetDocument:
    """Return the fleet of herdctl's files. Raises ConfigError if they have errors."""
    path = _find_given(paths, folder, [folder / name for name in HERDCTL_FILE_NAMES], "herdctl.yaml")
    path = (find_config_in_folder(path) or path) if path.is_dir() else path
    document = export_files(path, environ=environ, system_zone=detect_system_zone(environ), base=folder)
    name = f"herdctl: {display_path(path, folder)}"
    return replace(document, origin=name, verb="Imported", notes=(*document.notes, *_HERDCTL_NOTES))


def import_agentd(paths: Sequence[str], environ: Mapping[str, str], folder: Path) -> FleetDocument:
    """Return the fleet of an .agentd folder. Raises ConfigError if its files have errors."""
    path = _find_given(paths, folder, [folder / ".agentd"], ".agentd")
    path = path if is_agentd_folder(path) else path / ".agentd"
    if not is_agentd_folder(path):
        hint = "Give the path of the .agentd folder."
        raise NotFound(f'"{display_path(path, folder)}" is not a folder of agentd.', hint=hint)
    document = export_files(path, environ=environ, system_zone=detect_system_zone(environ), base=folder)
    name = f"agentd: {display_path(path, folder)}"
    return replace(document, origin=name, verb="Imported", notes=(*document.notes, *_AGENTD_NOTES))


def _find_given(paths: Sequence[str], folder: Path, usual: Sequence[Path], name: str) -> Path:
    if len(paths) > 1:
        raise UsageError("Name one file or folder.", hint=f"For example {name}.")
    found = (folder / paths[0]).absolute() if paths else next((each for each in usual if each.exists()), None)
    if found is None or not found.exists():
        raise NotFound(f"There is no {paths[0] if paths else name} here.", hint="Give its path.")
    return found


def export_fleet(handle: FleetHandle, config: str | None, environ: Mapping[str, str], folder: Path) -> FleetDocument:
    """Return the fleet of a handle: its files, and what was created in its ledger. Raises ConfigError."""
    created = _read_created(handle)
    path = locate_config(config, environ, folder) if handle.has_files else None
    if path is None:
        return export_created(handle.name, handle.fleet.zone, created)
    zone = detect_system_zone(environ)
    return export_files(path, environ=environ, system_zone=zone, base=folder, created=created)


def _read_created(handle: FleetHandle) -> list[CreatedTarget]:
    """Return the targets and schedules of the ledger that no file defines, each target with its schedules."""
    reader = handle.reader
    if reader is None:
        return []
    records = [each for each in _iter_schedules(handle) if is_unmanaged(each.origin)]
    run_specs = reader.run_specs([each.id for each in records])
    by_target: dict[str, list[Schedule]] = {}
    for each in records:
        by_target.setdefault(each.target, []).append(_build_schedule(each, run_specs[each.id]))
    created = []
    for row in reader.target_page("", MAX_EXPORTED):
        if is_unmanaged(row.origin) or row.name in by_target:
            found = reader.find_target(row.name)
            assert found is not None, "it was listed in the same ledger"
            target: Target = reader.targets([found[0]])[found[0]]
            created.append(CreatedTarget(target=target, schedules=tuple(by_target.get(row.name, ()))))
    return created


def _iter_schedules(handle: FleetHandle) -> Iterator[ScheduleRecord]:
    assert handle.reader is not None
    yield from sorted(handle.reader.schedules(Filter(limit=MAX_EXPORTED)), key=lambda each: each.id)


def _build_schedule(record: ScheduleRecord, run_spec: "RunSpec") -> Schedule:
    return Schedule(
        target=record.target,
        name=record.name,
        trigger=record.plan.trigger,
        policies=record.plan.policies,
        prompt=run_spec.prompt,
        variables=run_spec.variables,
        enabled=record.enabled,
    )


def _find_current_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # a container may run a user without a name
