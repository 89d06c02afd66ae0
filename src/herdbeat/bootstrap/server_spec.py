"""The spec of the server process: what it needs to know of a fleet, as one line of JSON from its parent.

The server reads no files to start: it comes back also while they are being edited.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import load_config, locate_config
from herdbeat.bootstrap.handle import FleetHandle, build_handle
from herdbeat.clock import Clock
from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.fleet import Fleet, ServerSettings
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.webhook import DEFAULT_MAX_BODY_BYTES
from herdbeat.errors import ConfigError, Conflict
from herdbeat.triggers import load_trigger

if TYPE_CHECKING:
    from herdbeat.bootstrap.config import LoadResult, ResolvedValue
    from herdbeat.service.commands.dispatch import LoadedFleet


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """A fleet as the server needs it. `socket_fd` is the listening socket; `secret` outlives a restart of the server.

    `config` and `folder` say where the files are, for those requests that read them; "" for a fleet without files.
    `login_code` opens one session in a browser.
    """

    name: str
    store: str
    home: str
    zone: ZoneInfo
    state_dir: str = ""
    settings: ServerSettings = field(default_factory=ServerSettings)
    config: str = ""
    folder: str = ""
    has_isolation: bool = False
    has_files: bool = True
    socket_fd: int = -1
    port: int = 0
    secret: str = ""
    login_code: str = ""
    max_hook_body: int = DEFAULT_MAX_BODY_BYTES
    log_format: str = "text"

    def to_line(self) -> str:
        return json.dumps(to_json(self))

    @classmethod
    def from_line(cls, line: str) -> "ServerSpec":
        return from_json(cls, json.loads(line), load_trigger)


def build_server_spec(
    fleet: Fleet, config: str | None, environ: Mapping[str, str], folder: Path, *, has_files: bool
) -> ServerSpec:
    path = locate_config(config, environ, folder) if has_files else None
    return ServerSpec(
        name=fleet.name,
        store=fleet.store,
        home=fleet.home,
        zone=fleet.zone,
        state_dir=fleet.state_dir,
        settings=fleet.server,
        config="" if path is None else os.fspath(path.absolute()),
        folder=os.fspath(folder.absolute()),
        has_isolation=any(isinstance(each.spec, AgentSpec) and each.spec.isolation for each in fleet.targets)
        or any(each.isolation is not None for each in fleet.schedules),
        has_files=path is not None,
        max_hook_body=fleet.webhooks.max_body,
    )


def read_environment(home: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment, completed by the `.env` beside the fleet file. A variable that is really set wins."""
    from herdbeat.config import files  # noqa: PLC0415 -- most requests need no file

    return files.read_environment(home, environ)


def open_server_handle(spec: ServerSpec, clock: Clock, environ: Mapping[str, str]) -> FleetHandle:
    """Return the fleet from outside, without a reader. Its files are read only by the requests that are about them."""
    fleet = Fleet(
        name=spec.name,
        zone=spec.zone,
        targets=(),
        schedules=(),
        store=spec.store,
        server=spec.settings,
        home=spec.home,
        state_dir=spec.state_dir,
    )
    handle = build_handle(fleet, clock)
    read = cache(lambda: _read_fleet(spec, environ))
    return replace(
        handle.use_ledger_clock(),
        has_files=spec.has_files,
        load_fleet=read if spec.has_files else handle.load_fleet,
        load_applied=lambda path: load_own_fleet(spec, environ),  # noqa: ARG005 -- a request names no path
    )


def load_own_fleet(spec: ServerSpec, environ: Mapping[str, str]) -> "LoadedFleet":
    """Read the fleet's own files. Raises ConfigError if they are wrong, Conflict if this machine has none."""
    from herdbeat.service.commands.dispatch import LoadedFleet  # noqa: PLC0415 -- only a change needs it

    return LoadedFleet(fleet=_read_fleet(spec, environ))


def read_config_values(spec: ServerSpec, environ: Mapping[str, str]) -> "tuple[ResolvedValue, ...]":
    """Return what the fleet's own files say, with secrets hidden. Raises ConfigError, Conflict without files."""
    reading = _read_files(spec, environ)
    if reading.fleet is None:
        raise ConfigError(reading.errors)
    return reading.values


def _read_fleet(spec: ServerSpec, environ: Mapping[str, str]) -> Fleet:
    from herdbeat.service.commands.fleet import require_valid_fleet  # noqa: PLC0415

    return require_valid_fleet(_read_files(spec, environ))


def _read_files(spec: ServerSpec, environ: Mapping[str, str]) -> "LoadResult":
    if not spec.has_files:
        raise Conflict("This machine does not have the files of the fleet.", hint="Apply them where they are.")
    return load_config(spec.config, environ, Path(spec.folder))
