"""What is read from the output of a run whose node was killed, whatever state the file is in."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.target import AgentSpec
from herdbeat.runners.agents.output import read_lost_report

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
INIT = b'{"type":"system","subtype":"init","session_id":"s-1","model":"opus","apiKeySource":"none"}\n'


def read(folder: Path, raw: bytes) -> AgentReport | None:
    day = folder / "logs" / "2026-03-26"
    day.mkdir(parents=True)
    (day / "0001.raw").write_bytes(raw)
    spec = AgentSpec(runtime="claude", working_directory=".", account="team")
    return read_lost_report(folder, 1, spec, {}, ZoneInfo("UTC"), NOW)


@pytest.mark.parametrize("rest", [b"", b'{"type":"assist', b"\x00\xff\n[[[", b'{"type":"result"}\n'])
def test_an_output_that_was_cut_off_is_an_interrupted_run_of_its_session(tmp_path: Path, rest: bytes) -> None:
    report = read(tmp_path, INIT + rest)

    assert report is not None
    assert (report.ok, report.session_id, report.account, report.runtime) == (False, "s-1", "team", "claude")


def test_a_run_that_left_no_output_has_nothing_to_tell(tmp_path: Path) -> None:
    spec = AgentSpec(runtime="claude", working_directory=".")

    assert read_lost_report(tmp_path, 1, spec, {}, ZoneInfo("UTC"), NOW) is None
