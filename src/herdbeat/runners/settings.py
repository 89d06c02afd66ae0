"""The settings of all runners of one node."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, timedelta, tzinfo
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.runners.agents.own_tools import OwnTools
from herdbeat.runners.functions import LocalFunctions
from herdbeat.runners.run_log import RunLog

MIB = 1024 * 1024
CONTAINERS_FOLDER = "containers"
"""The folder in the state directory with a file for each container of an isolated agent that may exist."""


def identify_store(state_dir: Path) -> str:
    """Return a short name of a state directory, for folders and labels outside of it."""
    return hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:16]


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return where this user keeps what is neither state of a fleet nor a cache."""
    data, home = environ.get("XDG_DATA_HOME", ""), environ.get("HOME", "")
    base = Path(data) if Path(data).is_absolute() else (Path(home) if home else Path.home()) / ".local" / "share"
    return base / "herdbeat"


def agent_home(state_dir: Path, environ: Mapping[str, str], target: str) -> Path:
    """Return the home folder of an isolated agent. It stays, because sessions and settings of its CLI are there."""
    return data_folder(environ) / identify_store(state_dir) / "homes" / target


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """What an operator or a test may choose about running targets on one node.

    `environ` is the node's environment, of which a child gets only the named variables. `home` is the fleet's folder
    on this node, against which relative folders of targets are resolved. `module_folders` are added to Python's path
    for callables, usually the folder of the fleet file. `body_cap` limits how much of a response is read at all,
    `egress_allow` lists the private addresses and hosts that endpoints may reach. `local_functions` are the functions
    that this process has registered. `is_embedded` is True in a user's own program: what its functions print appears
    on its stdout, too, and an exception is also logged with its traceback. `zone` is the machine's, for reset times in
    the words of an agent's CLI that name no zone. `fleet_files` are hidden from isolated agents.
    `own_tools` is how agents reach our MCP server; None if they are not offered it. `variables` are what `${NAME}` in
    specs and prompts stands for on this node; None means `environ`.
    """

    state_dir: Path
    environ: Mapping[str, str] = field(repr=False)
    home: Path = Path()
    max_concurrent: int = 100
    interrupt_grace: timedelta = timedelta(seconds=5)
    kill_after: timedelta = timedelta(seconds=5)
    pipe_grace: timedelta = timedelta(seconds=1)
    log_cap: int = 10 * MIB
    output_cap: int = MIB // 16
    response_cap: int = MIB // 4
    body_cap: int = MIB
    module_folders: tuple[Path, ...] = ()
    egress_allow: tuple[str, ...] = ()
    local_functions: LocalFunctions = field(default_factory=LocalFunctions, repr=False)
    is_embedded: bool = False
    zone: tzinfo = UTC
    fleet_files: tuple[Path, ...] = ()
    own_tools: OwnTools | None = None
    variables: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def store_id(self) -> str:
        return identify_store(self.state_dir)

    def folder(self, written: str) -> str:
        """Return a target's working directory on this node. The ledger stores it relative, since homes differ."""
        return os.path.normpath(self.home / written)

    def open_log(self, run_id: int, clock: Clock) -> "closing[RunLog]":
        return closing(RunLog(self.state_dir, run_id, clock, self.log_cap))
