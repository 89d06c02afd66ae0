"""`herdbeat service install`, `remove` and `status`: the fleet as a systemd service of this user."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from herdbeat.bootstrap.config import locate_config
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files
from herdbeat.cli.output.render import Notice, Output
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import Conflict, HerdbeatError, truncate_for_message
from herdbeat.platform import default_signals

EXIT_FAILED = 1
GENERATED_MARK = "# Written by `herdbeat service install`; `herdbeat service remove` removes it."
_PROGRAM_ARGV = (sys.executable, "-m", "herdbeat")
_SYSTEMCTL_TIMEOUT_S = 60
_STOP_MARGIN_S = 15
"""Seconds beyond the fleet's own stop timeout, before systemd kills what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdUnit:
    """The unit of a fleet: its name, where its file belongs, its text."""

    name: str
    path: Path
    text: str

    @property
    def is_installed(self) -> bool:
        return self.path.exists()

    @property
    def is_ours(self) -> bool:
        """Whether `herdbeat service install` wrote the file that is there."""
        return self.path.read_text(encoding="utf-8", errors="replace").startswith(GENERATED_MARK)


def run_install(args: ParsedArgs, context: Context) -> Output:
    unit = _load_unit(args, context)
    if args.has(flags.PRINT):
        return Output(lines=[unit.text.removesuffix("\n")])
    if unit.is_installed and not unit.is_ours and not args.has(flags.FORCE):
        raise Conflict(
            f"{unit.path} was not written by herdbeat.", hint="Check the file, or overwrite it with --force."
        )
    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        unit.path.write_text(unit.text, encoding="utf-8")
    except OSError as error:
        hint = "Print the unit with --print, and install it yourself."
        raise HerdbeatError(f"{unit.path}: {error.strerror}.", hint=hint) from error
    context.terminal.print(f"Written  {unit.path}")  # at once: systemd may take a minute, or fail
    return _start_unit(unit, context)


def _start_unit(unit: SystemdUnit, context: Context) -> Output:
    steps = [["daemon-reload"], ["enable", "--now", unit.name]]
    if not _has_user_manager(context):
        return Output(
            notices=_manual_steps("No systemd user manager is available here. Where there is one, run:", steps)
        )
    if any(_run_systemctl(context, *step).returncode for step in steps):
        notices = _manual_steps("systemd could not start the service. For details, run:", [["status", unit.name]])
        return Output(notices=notices, exit_status=EXIT_FAILED)
    journal = f"journalctl --user -u {unit.name.removesuffix('.service')}"
    lines = [f"Started  {unit.name}   undo: herdbeat service remove", f"Check    herdbeat status · {journal}"]
    return Output(
        lines=lines, notices=["It runs while you are logged in. To run it permanently: loginctl enable-linger"]
    )


def run_remove(args: ParsedArgs, context: Context) -> Output:
    unit = _load_unit(args, context)
    if not unit.is_installed:
        return Output(notices=[f"{unit.name} is not installed. No change."])
    if not unit.is_ours:
        raise Conflict(f"{unit.path} was not written by herdbeat.", hint="If you do not need it, remove it yourself.")
    if _has_user_manager(context):
        _run_systemctl(context, "disable", "--now", unit.name)
    unit.path.unlink()
    if _has_user_manager(context):
        _run_systemctl(context, "daemon-reload")
    return Output(lines=[f"Removed  {unit.path}. The files and the ledger were kept.   undo: herdbeat service install"])


def run_status(args: ParsedArgs, context: Context) -> Output:
    unit = _load_unit(args, context)
    is_installed = unit.is_installed
    is_stale = is_installed and unit.path.read_text(encoding="utf-8", errors="replace") != unit.text
    state = "unknown" if is_installed else "not installed"
    if is_installed and _has_user_manager(context):
        state = _run_systemctl(context, "is-active", unit.name).stdout.strip()
    stale_notice = Notice("The unit is out of date. Update it with: herdbeat service install")
    facts = {"unit": unit.name, "path": str(unit.path), "installed": is_installed, "state": state}
    lines = [f"{unit.name}   {state}   {unit.path}", *([stale_notice] if is_stale else [])]
    return Output(json=lambda: {**facts, "up_to_date": not is_stale}, is_compact=True, lines=lines)


def _load_unit(args: ParsedArgs, context: Context) -> SystemdUnit:
    path = args.value(flags.CONFIG)
    _, fleet = load_fleet_files(path, context)
    config = locate_config(path, context.environ, context.folder)
    assert config is not None, "it was read a moment ago"
    return build_unit(fleet, config.absolute(), context.environ, _PROGRAM_ARGV)


def _has_user_manager(context: Context) -> bool:
    return _find_systemctl(context) is not None and not _run_systemctl(context, "show-environment").returncode


def _find_systemctl(context: Context) -> str | None:
    return shutil.which("systemctl", path=context.environ.get("PATH"))


def _run_systemctl(context: Context, *words: str) -> subprocess.CompletedProcess[str]:
    program = _find_systemctl(context)
    assert program is not None
    with default_signals() as preexec_fn:
        return subprocess.run(  # noqa: S603 - a fixed program, and words of our own
            [program, "--user", *words],
            env=dict(context.environ),
            capture_output=True,
            text=True,
            timeout=_SYSTEMCTL_TIMEOUT_S,
            check=False,
            preexec_fn=preexec_fn,
        )


def _manual_steps(why: str, steps: list[list[str]]) -> list[str]:
    return [why, *(f"  systemctl --user {' '.join(step)}" for step in steps)]


def build_unit(fleet: Fleet, config: Path, environ: Mapping[str, str], program: Sequence[str]) -> SystemdUnit:
    """Return the unit. `program` starts herdbeat. Every path is absolute: systemd has no current folder."""
    name = f"herdbeat-{re.sub(r'[^a-zA-Z0-9_-]+', '-', fleet.name).strip('-') or 'fleet'}.service"
    configured = environ.get("XDG_CONFIG_HOME", "")
    home = Path(configured) if configured.startswith("/") else Path(environ.get("HOME") or "~").expanduser() / ".config"
    path = home / "systemd" / "user" / name
    return SystemdUnit(name=name, path=path, text=_unit_text(fleet, config, environ, program))


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
        "# Signal only herdbeat: it stops its own runs, gracefully at first.",
        "KillMode=mixed",
        "# A control group for each run, so that all processes of a cancelled run are stopped.",
        "Delegate=yes",
        f"TimeoutStopSec={stop}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "".join(f"{line}\n" for line in lines)


def _quote_word(word: str) -> str:
    """Return a word as systemd reads it: in quotes if needed, with its special characters escaped."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != word or re.search(r"[\s;'$]", word) else word
