"""A fleet of real agent CLIs that `herdbeat up` runs, as a user would have it."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.support.running_fleet import PROCESS_TIMEOUT_S, EventFeed
from tests.system.agent_clis import AgentCli, AgentHome, find_processes
from tests.system.parts import read_states

PASSED_ON = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_MAX_RETRIES",
    "IS_SANDBOX",
    "OPENCODE_DISABLE_MODELS_FETCH",
)
"""Variables that only these tests need. The others reach the CLIs without a word in the fleet file."""


@dataclass(frozen=True, slots=True)
class AgentFleet:
    """A folder with a fleet file, in the home of a user who has installed every CLI."""

    home: AgentHome

    @property
    def folder(self) -> Path:
        return self.home.workspace

    def write(self, *agents: Mapping[str, object], **keys: object) -> None:
        """Write the fleet file."""
        fleet = {"version": 1, "timezone": "UTC", **keys, "agents": list(agents)}
        (self.folder / "herdbeat.yaml").write_text(yaml.safe_dump(fleet, sort_keys=False), encoding="utf-8")

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._argv(*words),
            cwd=self.folder,
            env=self._variables(),
            capture_output=True,
            text=True,
            timeout=PROCESS_TIMEOUT_S,
            check=False,
        )

    def ask(self, *words: str) -> Any:
        """Return the JSON that a command prints."""
        done = self.call(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def runs(self, target: str) -> list[dict[str, Any]]:
        """Return the runs of a target as `show` prints them, oldest first."""
        listed = self.ask("runs", target)["items"]
        return [self.ask("show", run["id"]) for run in reversed(listed)]

    def read(self, question: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the ledger."""
        with closing(sqlite3.connect(self.folder / ".herdbeat" / "herdbeat.db")) as ledger:
            return ledger.execute(question).fetchall()

    def agent_processes(self) -> list[str]:
        """Return what runs in this home, apart from herdbeat itself."""
        return [line for line in find_processes(self.home.folder) if sys.executable not in line]

    @contextmanager
    def up(self) -> Iterator[EventFeed]:
        """Run the fleet until the block ends; kill it then if it still runs."""
        with subprocess.Popen(
            self._argv("up", "--json"), cwd=self.folder, env=self._variables(), stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                feed = EventFeed(process)
                feed.until("node_ready")
                yield feed
            finally:
                process.kill()

    def _argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "herdbeat", *words]

    def _variables(self) -> dict[str, str]:
        return {**self.home.variables, "PATH": f"{self._link_programs()}{os.pathsep}{os.environ['PATH']}"}

    def _link_programs(self) -> Path:
        folder = self.home.folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, state in read_states().items():
            if state.program and not (folder / name).is_symlink():
                (folder / name).symlink_to(state.program)
        return folder


def agent(
    cli: AgentCli, prompt: str, *, schedule: Mapping[str, object] | None = None, **keys: object
) -> dict[str, Any]:
    """Return an agent of the fleet file whose one schedule runs as soon as the fleet is up."""
    once = {"every": "1d", "prompt": prompt, **(schedule or {})}
    return {
        "name": cli.name,
        "runtime": cli.name,
        "model": cli.model,
        "env": list(PASSED_ON),
        **keys,
        "schedules": {"work": once},
    }
