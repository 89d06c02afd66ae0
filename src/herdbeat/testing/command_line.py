"""Runs the command line in this process: arguments in, output and exit status out."""

import json
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from herdbeat.cli.main import main
from herdbeat.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The exit status of a command, and what it wrote to stdout and stderr."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def lines(self) -> list[str]:
        return self.out.splitlines()


class _FakeTerminal(StringIO):
    def isatty(self) -> bool:
        return True


@dataclass(slots=True, kw_only=True)
class CommandLine:
    """Runs `herdbeat` with a given folder, clock and environment."""

    folder: Path
    clock: Clock
    environ: dict[str, str] = field(default_factory=dict)
    typed: str | None = None
    """The input of an interactive terminal; None if stdin is not a terminal."""

    def run(self, *words: str, **environ: str) -> CommandResult:
        out, err = StringIO(), StringIO()
        status = main(
            words,
            out=out,
            err=err,
            environ={**self.environ, **environ},
            clock=self.clock,
            folder=self.folder,
            stdin=StringIO() if self.typed is None else _FakeTerminal(self.typed),
        )
        return CommandResult(status=status, out=out.getvalue(), err=err.getvalue())
