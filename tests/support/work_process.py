"""Real nodes that take items from a folder or from a GitHub-shaped server, and what the outside world saw of them."""

import asyncio
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self, TypeVar

from tests.support.fake_github import REPO, TOKEN, FakeGitHub, serve_github
from tests.support.fake_linear import KEY
from tests.support.fault_fleet import wait_until
from tests.support.warm_start import WarmProcess

from herdbeat.store.reader import SqliteReader
from herdbeat.testing import FakeClock
from herdbeat.work.github_history import parse_marker

Server = TypeVar("Server")
FLEET = """\
version: 1
fleet: {{ name: work }}
timezone: UTC
{store}
commands:
  - name: worker
    command: [sh, -c, 'read i; [ "$i" ] || exit 1; echo "$i" >> {starts}; sleep {takes}; echo "$i" >> {ends}']
    instances: {{ max_concurrent: {max_concurrent} }}
    every: 1s
    backoff: {{ factor: 1 }}
    prompt: "{{{{work.id}}}}"
    work_source: {source}
"""


@dataclass(slots=True)
class WorkProcess:
    """A folder with a fleet, and nodes that serve it."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    github_token: str = TOKEN

    @classmethod
    def create(
        cls, folder: Path, source: str, *, store: str = "", takes: float = 0.0, max_concurrent: int = 1
    ) -> "WorkProcess":
        known = {"starts": folder / "starts", "ends": folder / "ends", "takes": takes}
        text = FLEET.format(source=source, store=store, max_concurrent=max_concurrent, **known)
        (folder / "herdbeat.yaml").write_text(text, encoding="utf-8")
        return cls(folder)

    def start(self, crash_at: str = "", *, applies: bool = False) -> subprocess.Popen[bytes]:
        """Start a node; return once it is ready, or has ended before."""
        tokens = {"GITHUB_TOKEN": self.github_token, "LINEAR_API_KEY": KEY}
        environ = {**os.environ, **tokens, **({"HERDBEAT_CRASH_AT": crash_at} if crash_at else {})}
        arguments = [str(self.folder), *(["--apply"] if applies else [])]
        with (self.folder / "log").open("ab") as log:
            process = WarmProcess("tests.faults.work_node_process", *arguments, stderr=log, env=environ)
        assert process.stdout is not None
        process.stdout.readline()
        self.processes.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
        self.end()

    def kill(self) -> None:
        """Kill the newest node."""
        self.processes[-1].kill()

    def end(self) -> None:
        """Stop every node that is left."""
        for process in self.processes:
            process.terminate()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()

    def read(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def starts(self) -> Counter[str]:
        return Counter(self.read("starts"))

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def open_claims(self) -> list[str]:
        reader = SqliteReader(self.folder / ".herdbeat" / "herdbeat.db")
        try:
            return [f"{view.claim.item}: {view.claim.state}" for view in reader.work_claims(only_open=True)]
        finally:
            reader.close()


def github_in_thread() -> AbstractContextManager[FakeGitHub]:
    return server_in_thread(serve_github)


@contextmanager
def server_in_thread(serve: Callable[[FakeClock], AbstractAsyncContextManager[Server]]) -> Iterator[Server]:
    """A fake server beside the test, which waits for real processes."""
    loop, ready, done = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    servers: list[Server] = []

    async def serve_until_done() -> None:
        async with serve(FakeClock(datetime.now(UTC))) as server:
            servers.append(server)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve_until_done()), name="server")
    thread.start()
    ready.wait(30)
    try:
        yield servers[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


def wait_until_closed(github: FakeGitHub, work: WorkProcess) -> None:
    def is_done() -> bool:
        return all(issue.state == "closed" and not issue.labels for issue in github.issues.values())

    def explain() -> str:
        issues = {issue.number: (issue.state, issue.labels) for issue in github.issues.values()}
        return f"stuck: {issues} {github.log[-3:]} {work.log()[-2_000:]}"

    wait_until(is_done, explain)


def check_server(github: FakeGitHub) -> None:
    """Every issue is closed by one report of success, with at most one report per run, and no label is left."""
    for issue in github.issues.values():
        markers = [parse_marker(comment["body"]) for comment in issue.comments]
        reports = [marker for marker in markers if marker and marker[0] != "claim"]
        assert len(reports) == len(set(reports)), f"#{issue.number} was reported twice: {reports}"
        succeeded = [comment for comment in issue.comments if "succeeded" in comment["body"]]
        assert len(succeeded) == 1, f"#{issue.number} has {len(succeeded)} reports of success"


def create_github_fleet(folder: Path, github: FakeGitHub) -> WorkProcess:
    github.add(1, "ready")
    return WorkProcess.create(folder, f"{{ type: github, repo: {REPO}, api_url: '{github.url}' }}")


def finish_github_work(work: WorkProcess, github: FakeGitHub) -> None:
    """Start the next node, let it do what is left, and check that nothing is lost, doubled or stuck."""
    work.start()
    github.clock.advance(timedelta(minutes=11))  # an issue without labels and without a claim is free after ten
    wait_until_closed(github, work)
    wait_until(lambda: not work.open_claims(), lambda: f"open: {work.open_claims()}")
    work.end()
    check_server(github)
    assert work.starts()["1"] <= 2, "at most the interrupted run is repeated"
