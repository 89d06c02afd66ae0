"""`herdbeat service install`, `remove` and `status`: the fleet as a service of this user, by systemd."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files
from herdbeat.cli.parser import ParsedArgs
from herdbeat.config.locate import find_config
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import Conflict, HerdbeatError, truncate_for_message

# The systemd unit of a fleet: its name, its place, its text. Every path in it is absolute, for systemd has no here.


GENERATED_MARK = "# Written by `herdbeat service install`; `herdbeat service remove` removes it."
_STOP_MARGIN_S = 15
"""Seconds beyond the time that runs may take to finish, before systemd kills what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdUnit:
    name: str
    path: Path
    text: str

    @property
    def is_installed(self) -> bool:
        return self.path.exists()

    @property
    def is_ours(self) -> bool:
        """Whether the file that lies there was written by us."""
        return self.path.read_text(encoding="utf-8", errors="replace").startswith(GENERATED_MARK)


def build_unit(fleet: Fleet, config: Path, environ: Mapping[str, str], program: Sequence[str]) -> SystemdUnit:
    """`program` is what `herdbeat` is here, as words."""
    name = f"herdbeat-{re.sub(r'[^a-zA-Z0-9_-]+', '-', fleet.name).strip('-') or 'fleet'}.service"
    configured = environ.get("XDG_CONFIG_HOME", "")
    home = Path(configured) if configured.startswith("/") else Path(environ.get("HOME") or "~").expanduser() / ".config"
    return SystemdUnit(
        name=name, path=home / "systemd" / "user" / name, text=_unit_text(fleet, config, environ, program)
    )


def _unit_text(fleet: Fleet, config: Path, environ: Mapping[str, str], program: Sequence[str]) -> str:
    # Only a command line has variables of its own: in a setting, a dollar is a dollar.
    start = " ".join(_quote_word(word.replace("$", "$$")) for word in (*program, "up", "--config", str(config)))
    stop = int(fleet.stop_timeout.total_seconds()) + _STOP_MARGIN_S
    path = environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    lines = [
        GENERATED_MARK,
        "[Unit]",
        f"Description=herdbeat: {truncate_for_message(fleet.name).replace('%', '%%')}",
        "",
        "[Service]",
        "Type=exec",
        f"WorkingDirectory={str(fleet.home).replace('%', '%%')}",
        f"ExecStart={start}",
        f"Environment={_quote_word(f'PATH={path}')}",
        "Restart=on-failure",
        "RestartSec=5",
        "# Ask herdbeat alone to stop: it ends its runs itself, softly at first.",
        "KillMode=mixed",
        f"TimeoutStopSec={stop}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "".join(f"{line}\n" for line in lines)


def _quote_word(word: str) -> str:
    """A word as systemd reads it: in quotes, with its own signs doubled."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != word or re.search(r"[\s;'$]", word) else word


EXIT_FAILED = 1
_SYSTEMCTL_TIMEOUT_S = 60
_PROGRAM_ARGV = (sys.executable, "-m", "herdbeat")


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
