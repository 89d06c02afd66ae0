"""Everything a command may touch, in one value, so that a test can pass another world."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from herdbeat.cli.output.terminal import Terminal
from herdbeat.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Screen, clock, environment, current folder, standard input, and what is open until the result is printed."""

    terminal: Terminal
    clock: Clock
    environ: Mapping[str, str]
    folder: Path
    stdin: TextIO | None = None
    resources: ExitStack = field(default_factory=ExitStack)

    @property
    def is_interactive(self) -> bool:
        """Whether a person can answer a question here."""
        return self.stdin is not None and self.stdin.isatty()
