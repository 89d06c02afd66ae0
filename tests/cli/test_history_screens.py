"""The exact output of the commands that show history, on a ledger that the real scheduler wrote.

After an intended change: HERDBEAT_WRITE_GOLDEN=1 pytest tests/cli/test_history_screens.py, and review the difference.
"""

import asyncio
import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.golden_screens import GoldenScreen, unmatched_files
from tests.support.outage_fleet import write_outage_fleet

from herdbeat.store.state_lock import StateLock
from herdbeat.testing.command_line import CommandLine


@dataclass(frozen=True, kw_only=True)
class Case(GoldenScreen):
    folder = "golden/history"
    has_live_node: bool = True


CASES = [
    Case(name="status", line="status"),
    Case(name="status_wide", line="status", columns=200),
    Case(name="status_coloured", line="status", coloured=True),
    Case(name="status_check", line="status --check", columns=None),
    Case(name="status_json", line="status --json", columns=None),
    Case(name="status_down", line="status --utc", has_live_node=False),
    Case(name="beats", line="beats --since 3h"),
    Case(name="beats_wide", line="beats", columns=200),
    Case(name="beats_missed", line="beats --outcome missed"),
    Case(name="beats_json", line="beats launch --json", columns=None),
    Case(name="beats_page", line="beats api-health -n 2"),
    Case(name="beats_none", line="beats launch --since 1h"),
    Case(name="beats_wrong_outcome", line="beats --outcome mised"),
    Case(name="beats_unknown", line="beats triage/standdup", columns=None),
    Case(name="runs", line="runs -n 8"),
    Case(name="runs_wide", line="runs -n 8", columns=200),
    Case(name="runs_failed", line="runs --status failed -n 2"),
    Case(name="runs_json", line="runs launch --json", columns=None),
    Case(name="explain_interval", line="explain triage/check-issues"),
    Case(name="explain_failing", line="explain api-health"),
    Case(name="explain_coloured", line="explain api-health", coloured=True),
    Case(name="explain_running", line="explain marketing/scan"),
    Case(name="explain_waiting", line="explain marketing/report"),
    Case(name="explain_done", line="explain launch"),
    Case(name="explain_down", line="explain triage/check-issues", has_live_node=False),
    Case(name="explain_missed", line='explain triage/standup --at "today 09:00"'),
    Case(name="explain_missed_wide", line='explain triage/standup --at "today 09:00"', columns=200),
    Case(name="explain_ran", line='explain launch --at "yesterday 22:30"'),
    Case(name="explain_nothing", line="explain triage/standup --at 13:00"),
    Case(name="explain_json", line="explain api-health --json", columns=None),
    Case(name="explain_run", line="explain 0001"),
    Case(name="explain_unknown", line="explain triage/standdup", columns=None),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("story")
    asyncio.run(write_outage_fleet(made))
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_output_matches_the_golden_file(case: Case, cli: CommandLine, folder: Path) -> None:
    cli.folder = folder

    with StateLock(folder / ".herdbeat") if case.has_live_node else nullcontext():
        answer = case.run(cli)

    text = anonymous(case.transcript(answer))
    assert text == case.golden(text)


def test_every_golden_file_belongs_to_a_case() -> None:
    assert unmatched_files(CASES) == set()


@pytest.mark.parametrize("case", [case for case in CASES if case.columns], ids=lambda case: case.name)
def test_lines_fit_the_screen(case: Case) -> None:
    assert case.wide_lines() == []


@pytest.mark.parametrize("line", ["status", "beats", "runs", "beats --json"])
def test_without_any_history_the_output_is_empty_and_has_a_hint(cli: CommandLine, line: str) -> None:
    (cli.folder / "herdbeat.yaml").write_text("version: 1\ncommands: [{name: a, command: [true], every: 5m}]\n")

    answer = cli.run(*line.split())

    assert answer.status == 0
    assert "never started" in answer.out or "herdbeat up" in answer.err or answer.json()["items"] == []


def anonymous(text: str) -> str:
    return text.replace(f"pid {os.getpid()}", "pid 4121").replace(f'"pid": {os.getpid()}', '"pid": 4121')
