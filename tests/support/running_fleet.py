"""A fleet that runs in a process of its own, for tests that watch how commands affect it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.warm_start import run_module

PROCESS_TIMEOUT_S = 60
"""A generous time limit for a process that normally responds at once: only a broken one reaches it."""

FLEET_YAML = """\
version: 1
timezone: UTC
commands:
  - { name: quick, command: [echo, hello], cron: "0 0 1 1 *" }
"""
EXTENDED_FLEET_YAML = FLEET_YAML + "  - { name: more, command: [echo, more], every: 1h }\n"


class RunningFleet:
    """A folder with a fleet, and `herdbeat` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(FLEET_YAML)

    def write(self, text: str) -> None:
        (self.folder / "herdbeat.yaml").write_text(text, encoding="utf-8")

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_module("herdbeat", *words, cwd=self.folder, timeout=PROCESS_TIMEOUT_S)

    def labels(self) -> list[str]:
        return [each["schedule"] for each in json.loads(self.call("list", "--json").stdout)["items"]]

    @contextmanager
    def up(self, *words: str) -> Iterator["EventFeed"]:
        argv = [sys.executable, "-m", "herdbeat", "up", "--json", *words]
        with subprocess.Popen(argv, cwd=self.folder, stdout=subprocess.PIPE, text=True) as process:
            try:
                feed = EventFeed(process)
                feed.until("node_ready")
                yield feed
            finally:
                process.kill()


class EventFeed:
    """The events of a running fleet."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until(self, event: str, **fields: object) -> dict[str, object]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, object] = json.loads(line)
            if found["event"] == event and all(found[name] == value for name, value in fields.items()):
                return found
        raise AssertionError(f"it ended without {event} {fields}")
