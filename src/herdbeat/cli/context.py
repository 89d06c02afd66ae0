"""Everything a command may touch, in one value: so that a test can hand it another world."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from herdbeat.cli.output.terminal import Terminal
from herdbeat.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Screen, clock, environment, the folder that the user stands in, and what the user types."""

    terminal: Terminal
    clock: Clock
    environ: Mapping[str, str]
    folder: Path
    stdin: TextIO | None = None

    @property
    def is_interactive(self) -> bool:
        """Whether somebody sits there who can answer."""
        return self.stdin is not None and self.stdin.isatty()
