"""What an operator, or a test, may choose about running things on one node."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from herdbeat.runners.functions import LocalFunctions

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """`environ` is the node's own environment, of which a child gets only what is named.

    `module_folders` are put on Python's path for callables: the folder of the fleet file, as a rule. `body_cap` is how
    much of an endpoint's answer is read at all, `egress_allow` which private addresses and hosts endpoints may reach.
    `home` is the fleet's folder on this node, from which relative folders of targets count. `at_hand` are the functions
    that this process brings along.
    """

    state_dir: Path
    environ: Mapping[str, str] = field(repr=False)
    home: Path = Path()
    max_concurrent: int = 100
    kill_after: timedelta = timedelta(seconds=5)
    pipe_grace: timedelta = timedelta(seconds=1)
    log_cap: int = 10 * MIB
    output_cap: int = MIB // 16
    response_cap: int = MIB // 4
    body_cap: int = MIB
    module_folders: tuple[Path, ...] = ()
    egress_allow: tuple[str, ...] = ()
    local_functions: LocalFunctions = field(default_factory=LocalFunctions, repr=False)

    def folder(self, written: str) -> str:
        """Where a target works on this node. The ledger holds it as it was written, for nodes that lie elsewhere."""
        return os.path.normpath(self.home / written)
