"""Agents whose CLI is the fake one, and what that CLI has seen of its own starts."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdbeat.domain.target import AgentSpec


def agent_spec(folder: Path, runtime: str = "fake", **options: Any) -> AgentSpec:
    return AgentSpec(runtime=runtime, working_directory=str(folder), env=("FAKE_AGENT_LOG",), **options)


def write_cli(folder: Path, speaks: str) -> str:
    """Write a program that speaks as this CLI does; return its path, for `program`."""
    path = folder / f"fake-{speaks}"
    path.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -P -m herdbeat.testing.fake_agent --as {speaks} "$@"\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return str(path)


@dataclass(frozen=True, slots=True)
class StartLog:
    """The file in which the fake CLI notes each of its starts."""

    path: Path

    @property
    def variables(self) -> dict[str, str]:
        return {"FAKE_AGENT_LOG": str(self.path)}

    def read(self) -> list[dict[str, Any]]:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return [json.loads(line) for line in lines]
