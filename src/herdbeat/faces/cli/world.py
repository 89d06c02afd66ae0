"""Everything a command may touch, in one value: so that a test can hand it another world."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from herdbeat.clock import Clock
from herdbeat.faces.cli.terminal import Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Screen, clock, environment, and the folder that the user stands in."""

    terminal: Terminal
    clock: Clock
    environ: Mapping[str, str]
    folder: Path
