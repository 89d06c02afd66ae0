"""The systemd unit of a fleet: its name, its place, its text. Every path in it is absolute, for systemd has no here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.errors import truncate_for_message

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
