"""Golden screens: a call, and the file with the exact text that it must print.

After an intended change: HERDBEAT_WRITE_GOLDEN=1 pytest with the test file, and read the difference.
"""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from herdbeat.cli.output.terminal import display_width
from herdbeat.testing.command_line import CommandLine, CommandResult

CLI_TESTS = Path(__file__).parents[1] / "cli"


@dataclass(frozen=True, kw_only=True)
class GoldenScreen:
    """One call, on a terminal with that many columns or into a pipe. The cases of a test file share a `folder`."""

    folder: ClassVar[str]
    name: str
    line: str
    columns: int | None = 80
    coloured: bool = False

    @property
    def file(self) -> Path:
        return CLI_TESTS / self.folder / f"{self.name}.txt"

    def run(self, cli: CommandLine) -> CommandResult:
        environ = {"COLUMNS": str(self.columns)} if self.columns else {}
        environ |= {"FORCE_COLOR": "1"} if self.coloured else {}
        return cli.run(*shlex.split(self.line), **environ)

    def transcript(self, answer: CommandResult) -> str:
        text = f"$ herdbeat {self.line}".rstrip() + f"\n{answer.out}"
        if answer.err:
            text += f"-- stderr\n{answer.err}"
        return f"{text}-- exit {answer.status}\n"

    def golden(self, text: str) -> str:
        """Return the content of the file, or write the text into it if HERDBEAT_WRITE_GOLDEN is set."""
        if os.environ.get("HERDBEAT_WRITE_GOLDEN"):
            self.file.write_text(text, encoding="utf-8")
            pytest.fail(f"{self.file.name} is written anew: read it, then run again without the variable")
        return self.file.read_text(encoding="utf-8")

    def wide_lines(self) -> list[str]:
        """Return the lines that a terminal would wrap. Commands to type are exempt and stay on one line."""
        lines = self.file.read_text(encoding="utf-8").splitlines()
        return [
            line for line in lines if display_width(line) > (self.columns or 0) and not line.startswith(("$", "undo:"))
        ]


def unmatched_files(cases: Iterable[GoldenScreen]) -> set[str]:
    """Return files without a case, and cases without a file."""
    wanted = {case.file for case in cases}
    return {path.name for folder in {path.parent for path in wanted} for path in {*folder.glob("*")} ^ wanted}
