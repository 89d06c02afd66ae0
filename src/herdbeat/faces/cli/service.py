"""`herdbeat service install`, `remove` and `status`: the fleet as a service of this user, by systemd."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from herdbeat.config.find import find_config
from herdbeat.errors import Conflict, HerdbeatError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.fleets import load_fleet_files
from herdbeat.faces.cli.service_unit import SystemdUnit, build_unit
from herdbeat.faces.cli.world import Context

EXIT_FAILED = 1
_SYSTEMCTL_TIMEOUT_S = 60
_PROGRAM_ARGV = (sys.executable, "-m", "herdbeat.faces.cli")


def run_install(args: ParsedArgs, context: Context) -> int:
    unit = _load_unit(args, context)
    if args.has(flags.PRINT):
        context.terminal.out.write(unit.text)
        return 0
    if unit.is_installed and not unit.is_ours and not args.has(flags.FORCE):
        raise Conflict(f"{unit.path} was not written by herdbeat.", hint="Look at it, or write over it with --force.")
    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        unit.path.write_text(unit.text, encoding="utf-8")
    except OSError as error:
        hint = "Show it with --print, and put it elsewhere."
        raise HerdbeatError(f"{unit.path}: {error.strerror}.", hint=hint) from error
    context.terminal.print(f"Written  {unit.path}")
    steps = [["daemon-reload"], ["enable", "--now", unit.name]]
    if not _has_user_manager(context):
        return _show_manual_steps(context, "There is no systemd for users here. Where there is one:", steps)
    for step in steps:
        if _run_systemctl(context, *step).returncode:
            return (
                _show_manual_steps(context, "systemd refused. Look into it with:", [["status", unit.name]])
                or EXIT_FAILED
            )
    context.terminal.print(f"Started  {unit.name}   undo: herdbeat service remove")
    context.terminal.print("Look     herdbeat status · journalctl --user -u " + unit.name.removesuffix(".service"))
    context.terminal.info("It runs while you are logged in. For always: loginctl enable-linger")
    return 0


def run_remove(args: ParsedArgs, context: Context) -> int:
    unit = _load_unit(args, context)
    if not unit.is_installed:
        context.terminal.info(f"There is no {unit.name}. Nothing was changed.")
        return 0
    if not unit.is_ours:
        raise Conflict(f"{unit.path} was not written by herdbeat.", hint="Remove it yourself, if it is yours.")
    if _has_user_manager(context):
        _run_systemctl(context, "disable", "--now", unit.name)
    unit.path.unlink()
    if _has_user_manager(context):
        _run_systemctl(context, "daemon-reload")
    context.terminal.print(f"Removed  {unit.path}. The files and the ledger stay.   undo: herdbeat service install")
    return 0


def run_status(args: ParsedArgs, context: Context) -> int:
    unit = _load_unit(args, context)
    state = "not installed"
    if unit.is_installed:
        state = (
            _run_systemctl(context, "is-active", unit.name).stdout.strip() if _has_user_manager(context) else "unknown"
        )
    is_stale = unit.is_installed and unit.path.read_text(encoding="utf-8", errors="replace") != unit.text
    if args.has(flags.JSON):
        answer = {"unit": unit.name, "path": str(unit.path), "installed": unit.is_installed, "state": state}
        context.terminal.print(json.dumps({**answer, "up_to_date": not is_stale}))
        return 0
    context.terminal.print(f"{unit.name}   {state}   {unit.path}")
    if is_stale:
        context.terminal.info("It was written for another place or version. Write it anew: herdbeat service install")
    return 0


def _load_unit(args: ParsedArgs, context: Context) -> SystemdUnit:
    wanted = args.value(flags.CONFIG)
    _, fleet = load_fleet_files(wanted, context)
    found = find_config(context.folder, context.environ, None if wanted is None else Path(wanted))
    assert found is not None, "it was read a moment ago"
    return build_unit(fleet, found.absolute(), context.environ, _PROGRAM_ARGV)


def _has_user_manager(context: Context) -> bool:
    return _find_systemctl(context) is not None and not _run_systemctl(context, "show-environment").returncode


def _find_systemctl(context: Context) -> str | None:
    return shutil.which("systemctl", path=context.environ.get("PATH"))


def _run_systemctl(context: Context, *words: str) -> subprocess.CompletedProcess[str]:
    program = _find_systemctl(context)
    assert program is not None
    return subprocess.run(  # noqa: S603 - a fixed program, and words of our own
        [program, "--user", *words],
        env=dict(context.environ),
        capture_output=True,
        text=True,
        timeout=_SYSTEMCTL_TIMEOUT_S,
        check=False,
    )


def _show_manual_steps(context: Context, why: str, steps: list[list[str]]) -> int:
    context.terminal.info(why)
    for step in steps:
        context.terminal.info(f"  systemctl --user {' '.join(step)}")
    return 0
