"""Sick functions and endpoints that die after working, for a minute: the ledger has what the targets have counted."""

import http.server
import random
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from herdbeat.domain.records import RunRecord
from herdbeat.store.reader import Filter, SqliteReader

DURATION_S = 60.0
METHODS = ("GET", "PUT", "DELETE", "POST")

PROGRAM = textwrap.dedent(
    """
    import asyncio, sys, time
    from herdbeat import Herd

    herd = Herd(sys.argv[1], stop_timeout=2)

    class Own(BaseException):
        pass

    def count(name):
        with open(f"{sys.argv[1]}/{name}.starts", "a") as file:
            file.write("x")

    def sick(name, error):
        @herd.every("1s", name=name, backoff={"factor": 1}, fixed_rate=name.endswith("_at_a_rate"))
        async def function():
            count(name)
            await asyncio.sleep(0.01)
            print(name)
            raise error

    for name, error in {
        "own": Own("mine"), "generator": GeneratorExit(), "exit": SystemExit(3), "cancelled": asyncio.CancelledError(),
        "own_at_a_rate": Own("mine"), "keyboard": KeyboardInterrupt(),
    }.items():
        sick(name, error)

    @herd.every("1s", timeout="1s", backoff={"factor": 1})
    async def swallows():
        count("swallows")
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                pass

    @herd.every("1s", timeout="1s", backoff={"factor": 1})
    def blocks():
        count("blocks")
        time.sleep(3)

    @herd.every("1s", fixed_rate=True)
    async def healthy():
        count("healthy")

    herd.run_forever()
    """
)


def read_runs(ledger: Path, target: str) -> list[RunRecord]:
    with closing(SqliteReader(ledger)) as reader:
        return reader.runs(Filter(target=target, limit=100_000))


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_minute_of_sick_functions(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.DEVNULL)
    time.sleep(DURATION_S)
    assert process.poll() is None, "a function has ended the herd"
    stop(process)

    starts = {file.stem: file.stat().st_size for file in tmp_path.glob("*.starts")}
    recorded = {name: read_runs(tmp_path / "herdbeat.db", name) for name in starts}
    assert starts == {name: len(runs) for name, runs in recorded.items()}
    assert starts["healthy"] >= DURATION_S / 2
    for name in ("own", "generator", "exit", "cancelled", "own_at_a_rate", "keyboard"):
        assert {run.status for run in recorded[name]} == {"failed"}, name
    for name in ("swallows", "blocks"):
        assert {run.status for run in recorded[name]} <= {"timed_out", "interrupted"}, name
        ended = sorted(
            (run.started_at, run.finished_at) for run in recorded[name] if run.started_at and run.finished_at
        )
        assert all(before <= after for (_, before), (after, _) in pairwise(ended)), name


@contextmanager
def dying_server(requests: "Counter[str]") -> Iterator[int]:
    """An endpoint that counts each request by its key, and then answers, breaks off, closes or resets, at random."""
    chance = random.Random(1)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def work(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests[self.headers["Idempotency-Key"]] += 1
            match chance.randrange(4):
                case 0:
                    self.send_response(200)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                case 1:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
                    self.close_connection = True
                case 2:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    self.close_connection = True
                case _:
                    self.close_connection = True

        do_GET = do_PUT = do_DELETE = do_POST = work  # noqa: N815 - the names of the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

        def finish(self) -> None:
            with self.connection:
                pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_minute_of_endpoints_that_die_after_working(tmp_path: Path) -> None:
    requests: Counter[str] = Counter()
    with dying_server(requests) as port:
        endpoints = [
            f"  - {{ name: {method.lower()}, url: 'http://127.0.0.1:{port}/', method: {method}, every: 1s,"
            " retry: { attempts: 2, wait: 1s }, backoff: { factor: 1 } }"
            for method in METHODS
        ]
        text = "\n".join(["version: 1", "egress: { allow: ['127.0.0.1'] }", "endpoints:", *endpoints, ""])
        (tmp_path / "herdbeat.yaml").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "herdbeat", "up"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        time.sleep(DURATION_S)
        assert process.poll() is None
        stop(process)

    ledger = tmp_path / ".herdbeat" / "herdbeat.db"
    recorded = {method: read_runs(ledger, method.lower()) for method in METHODS}
    with closing(SqliteReader(ledger)) as reader:
        beats = {beat.id: beat for beat in reader.beats(Filter(limit=100_000))}
    attempts = Counter(beats[run.beat_id].dedup_id for runs in recorded.values() for run in runs)
    by_dedup_id: Counter[str] = Counter()
    for key, count in requests.items():
        by_dedup_id[key.partition(":")[2]] += count
    assert by_dedup_id == attempts
    assert all(len(runs) >= DURATION_S / 4 for runs in recorded.values())
