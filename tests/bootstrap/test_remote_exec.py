"""`herdbeat exec` and the log of its program: every line arrives once and in order, whatever the connection does."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from herdbeat.bootstrap.remote_exec import (
    MAX_LOG_PART_BYTES,
    RunServer,
    ServerAway,
    TakeRefused,
    _execute,
    _Supervised,
    split_record,
)
from herdbeat.clock import SystemClock
from herdbeat.domain.run import RunStatus
from herdbeat.platform import boot_time
from herdbeat.runners.run_log import LogStream, RunLog, find_last_part
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.remote_jobs import RemoteWork, load_outcome

MAX_BODY_BYTES = 1024 * 1024


@dataclass
class LossyServer(RunServer):
    """Keeps the first part of each number, as the ledger does. It loses answers that it has given."""

    parts: dict[int, str] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)
    lost_answers: int = 0

    async def report(
        self, sequence: int = 0, text: str = "", result: str = "", *, wants_told: bool = False
    ) -> Mapping[str, Any]:
        assert len(json.dumps({"log": text, "result": result, "told": wants_told})) < MAX_BODY_BYTES
        if text:
            self.parts.setdefault(sequence, text)
        if result:
            self.results.append(result)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ServerAway("the connection was lost")
        return {"stop": "", "is_over": False}

    @property
    def printed(self) -> str:
        lines = "".join(text for _, text in sorted(self.parts.items())).split("\n")
        return "".join(json.loads(line)["text"] for line in lines if line)


@pytest.fixture
def server() -> LossyServer:
    return LossyServer(cast("aiohttp.ClientSession", None), "http://127.0.0.1:1", 7, "token")


def open_log(folder: Path) -> RunLog:
    return RunLog(folder, 7, SystemClock(), 100_000_000)


def supervise(folder: Path, server: LossyServer) -> _Supervised:
    work = RemoteWork(cast("Any", None), timedelta(minutes=1), "", timedelta(minutes=5))
    return _Supervised(server, work, RunnerSettings(state_dir=folder, environ={}), boot_time())


async def test_lines_that_are_printed_while_an_answer_is_lost_arrive_once(tmp_path: Path, server: LossyServer) -> None:
    log, program = open_log(tmp_path), supervise(tmp_path, server)
    log.write(LogStream.OUT, "first\n")
    server.lost_answers = 1
    with pytest.raises(ServerAway):
        await program._send_log_part()

    log.write(LogStream.OUT, "second\n")
    await program.send_rest_of_log()

    assert server.printed == "first\nsecond\n"


async def test_a_line_that_is_longer_than_a_request_arrives_whole(tmp_path: Path, server: LossyServer) -> None:
    log, program = open_log(tmp_path), supervise(tmp_path, server)
    words = "\x01\u00e9\u2028" * MAX_LOG_PART_BYTES
    log.write(LogStream.OUT, "before\n")
    log.write(LogStream.OUT, words + "\n")
    log.write(LogStream.OUT, "after\n")

    await program.send_rest_of_log()

    assert server.printed == f"before\n{words}\nafter\n"


def test_a_record_that_a_full_disk_has_cut_hides_no_other() -> None:
    parts = split_record('{"text": "one"}\n{"text": "tw\n{"text": "three"}\n')

    assert [json.loads(each)["text"] for each in parts] == ["one", "three"]


def test_the_last_part_of_a_log_from_elsewhere_is_remembered_in_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.write(LogStream.OUT, "one\n")
    assert find_last_part(tmp_path, 7) == 0
    log.mark_part(1)
    log.write(LogStream.OUT, '{"at": "", "stream": "note", "text": "", "part": 9}\n')
    log.mark_part(2)
    log.write(LogStream.OUT, "three\n")

    assert find_last_part(tmp_path, 7) == 2


@pytest.mark.parametrize("data", ["", "{}", "[]", '{"timeout": "soon"}', '{"timeout": 1, "claim": null}'])
async def test_a_run_of_another_version_ended_exec_with_an_internal_error_and_waited_for_its_lease(
    server: LossyServer, data: str
) -> None:
    taken = {"data": data, "environment": {}, "run_token": "", "note": ""}

    status = await _execute(server, taken, boot_time())

    outcome = load_outcome(server.results[0])
    assert (status, outcome.status) == (0, RunStatus.FAILED)
    assert "install the version of the node there" in outcome.error


async def test_an_address_that_is_no_server_of_ours_ended_exec_with_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, server: LossyServer
) -> None:
    async def answer_nothing(verb: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        return {}

    monkeypatch.setattr(server, "_post", answer_nothing)

    with pytest.raises(TakeRefused, match="does not answer as a server of herdbeat"):
        await server.take()
