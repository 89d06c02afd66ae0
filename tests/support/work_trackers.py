"""Trackers that real nodes take items from, each with an oracle over what it has seen itself."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support import command_line_tracker as tracker
from tests.support.fake_linear import FakeLinear, serve_linear
from tests.support.work_process import server_in_thread


class WorkTracker(Protocol):
    @property
    def source(self) -> str:
        """The `work_source:` of a fleet that takes from it, for the worker whose runs are named by `work.id`."""
        ...

    def is_done(self) -> bool:
        """True once every item is done, and nothing is marked as in progress."""
        ...

    def check(self) -> None:
        """Every item was finished by one report of success, and no run has reported twice."""
        ...


@dataclass(slots=True)
class LinearIssues:
    linear: FakeLinear

    @property
    def source(self) -> str:
        return f"{{ type: linear, api_url: '{self.linear.url}', attempts: 9 }}"

    def is_done(self) -> bool:
        issues = self.linear.issues.values()
        return all(
            issue.state == "S-done"
            and not issue.labels
            and any("succeeded" in comment["body"] for comment in issue.comments)
            for issue in issues
        )

    def check(self) -> None:
        for issue in self.linear.issues.values():
            heads = [comment["body"].split("\n")[0] for comment in issue.comments]
            reports = [head for head in heads if " report " in head]
            assert len(reports) == len(set(reports)), f"{issue.identifier} was reported twice: {reports}"
            succeeded = [comment for comment in issue.comments if "succeeded" in comment["body"]]
            assert len(succeeded) == 1, f"{issue.identifier} has {len(succeeded)} reports of success"
            claims = {head.split()[-1] for head in heads if " claim " in head}
            assert claims == {head.split()[-1] for head in reports}, f"{issue.identifier} has a claim without a report"


@dataclass(slots=True)
class CommandLineTracker:
    folder: Path

    @property
    def source(self) -> str:
        verbs = (
            f"{verb}: ['{sys.executable}', -S, '{tracker.__file__}', '{self.folder}', {verb}]"
            for verb in ("list", "claim", "report", "release")
        )
        return f"{{ type: command, {', '.join(verbs)}, attempts: 9 }}"

    def is_done(self) -> bool:
        return all(item["state"] == "succeeded" for item in tracker.read_items(self.folder).values())

    def check(self) -> None:
        done = [entry for entry in tracker.read_log(self.folder) if entry[0] == "report" and entry[-1] == "succeeded"]
        assert sorted(entry[1] for entry in done) == sorted(tracker.read_items(self.folder))


@contextmanager
def open_linear(folder: Path, count: int) -> Iterator[WorkTracker]:
    with server_in_thread(serve_linear) as linear:
        for number in range(1, count + 1):
            linear.add(f"ENG-{number}", "ready")
        yield LinearIssues(linear)


@contextmanager
def open_command_line(folder: Path, count: int) -> Iterator[WorkTracker]:
    place = folder / "tracker"
    tracker.offer(place, *(f"T{number}" for number in range(1, count + 1)))
    yield CommandLineTracker(place)


TRACKERS = {"linear": open_linear, "command": open_command_line}
