"""Webhook calls at a real server beside a real node: parallel copies, and a node that is killed after its answer."""

import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.running_fleet import RunningFleet

FLEET = """\
version: 1
timezone: UTC
commands:
  - name: note
    command: [sh, -c, 'line=$(cat); echo "$line" >> notes.txt; case "$line" in *hang*) sleep 600;; esac']
    type: webhook
    auth: none
"""
TIMEOUT_S = 60
COPIES = 1_000


@pytest.fixture(autouse=True)
def _with_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERDBEAT_NO_SERVER", raising=False)


def call_many(url: str, body: bytes, delivery: str, number: int) -> Counter[int]:
    """Send copies of one delivery over one connection, and count the statuses."""
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_S)) as connection:
        statuses: Counter[int] = Counter()
        for _ in range(number):
            connection.request("POST", "/hooks/note/default", body, {"Idempotency-Key": delivery})
            answer = connection.getresponse()
            answer.read()
            statuses[answer.status] += 1
    return statuses


def test_a_thousand_parallel_copies_of_a_delivery_are_one_beat_and_one_run(tmp_path: Path) -> None:
    running = RunningFleet(tmp_path)
    running.write(FLEET)

    with running.up("--port", "0") as feed:
        url = str(feed.until("server_ready")["url"])
        with ThreadPoolExecutor(20) as threads:
            counts = threads.map(lambda _: call_many(url, b"once", "d-1", COPIES // 20), range(20))
            statuses = sum(counts, Counter[int]())
        feed.until("run_finished")
        beats = json.loads(running.call("beats", "--json").stdout)["items"]

    assert statuses == {202: 1, 200: COPIES - 1}
    assert [each["dedup_id"] for each in beats] == ["webhook:d-1"]
    assert (tmp_path / "notes.txt").read_text() == "once\n"


def test_a_call_that_was_answered_runs_although_the_node_is_killed_before_it_starts(tmp_path: Path) -> None:
    running = RunningFleet(tmp_path)
    running.write(FLEET)
    with running.up("--port", "0") as feed:
        url = str(feed.until("server_ready")["url"])
        call_many(url, b"hang", "first", 1)
        feed.until("run_started")
        accepted = call_many(url, b"after the crash", "second", 1)
        feed.process.kill()

    with running.up("--port", "0") as feed:
        feed.until("run_finished")

    assert accepted == {202: 1}
    # The first program may have been killed before it wrote its line.
    written = (tmp_path / "notes.txt").read_text().splitlines()
    assert [each for each in written if each != "hang"] == ["after the crash"]
