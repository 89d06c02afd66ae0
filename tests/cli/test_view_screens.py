"""The exact output of the commands that view a fleet, on a ledger that the real scheduler wrote.

After an intended change: HERDBEAT_WRITE_GOLDEN=1 pytest tests/cli/test_view_screens.py, and review the difference.
"""

import asyncio
import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.golden_screens import GoldenScreen, unmatched_files
from tests.support.mixed_state_fleet import write_mixed_state_fleet

from herdbeat.store.state_lock import StateLock
from herdbeat.testing.command_line import CommandLine


@dataclass(frozen=True, kw_only=True)
class Case(GoldenScreen):
    folder = "golden/views"
    has_live_node: bool = True


CASES = [
    Case(name="list", line="list"),
    Case(name="list_wide_screen", line="list", columns=200),
    Case(name="list_narrow", line="list", columns=60),
    Case(name="list_piped", line="list", columns=None),
    Case(name="list_coloured", line="list", coloured=True),
    Case(name="list_no_color", line="list --no-color", coloured=True),
    Case(name="list_plain", line="list --plain", columns=None),
    Case(name="list_json", line="ls queue-depth --json", columns=None),
    Case(name="list_target", line="list 'marketing/*'"),
    Case(name="list_tag", line="list --tag vendor-x"),
    Case(name="list_group", line="list --group issues"),
    Case(name="list_state", line="list --state failing"),
    Case(name="list_no_state", line="list --state waiting"),
    Case(name="list_page", line="list -n 2"),
    Case(name="list_next_page", line="list -n 2 --cursor 0002"),
    Case(name="list_down", line="list triage", has_live_node=False),
    Case(name="list_unknown", line="list triagge"),
    Case(name="list_unknown_tag", line="list --tag vendor-y"),
    Case(name="list_wrong_state", line="list --state failling", columns=None),
    Case(name="list_help", line="list -h"),
    Case(name="show_interval", line="show triage/check-issues"),
    Case(name="show_hinted", line="show queue-depth"),
    Case(name="show_hinted_wide", line="show queue-depth", columns=200),
    Case(name="show_failing", line="show api-health", coloured=True),
    Case(name="show_paused", line="show marketing/weekly"),
    Case(name="show_disabled", line="show marketing/old-promo"),
    Case(name="show_target", line="show marketing"),
    Case(name="show_run", line="show 0001"),
    Case(name="show_run_json", line="job 0001 --json", columns=None),
    Case(name="show_beat", line="show beat:0017"),
    Case(name="show_json", line="show queue-depth --json", columns=None),
    Case(name="show_unknown", line="show queue-dept"),
    Case(name="logs_run", line="logs 0001"),
    Case(name="logs_target", line="logs triage -n 5"),
    Case(name="logs_since", line="logs queue-depth --since 13:30"),
    Case(name="logs_coloured", line="logs 0001 0002", coloured=True),
    Case(name="logs_jsonl", line="logs 0001 --jsonl", columns=None),
    Case(name="logs_unknown", line="logs qeue-depth"),
    Case(name="timeline", line="timeline --since 1h"),
    Case(name="timeline_wide_screen", line="timeline --since 17h", columns=200),
    Case(name="timeline_coloured", line="timeline --since 1h", coloured=True),
    Case(name="timeline_named", line="timeline triage --since 17h"),
    Case(name="timeline_plain", line="timeline marketing/scan --plain --since 17h", columns=None),
    Case(name="timeline_json", line="timeline launch --json --since 17h", columns=None),
    Case(name="timeline_down", line="timeline --since 5m", has_live_node=False),
    Case(name="timeline_future", line='timeline --since "2026-03-27"', columns=None),
    Case(name="status_fleet", line="status"),
    Case(name="status_target", line="status marketing"),
    Case(name="status_well", line="status triage --check"),
    Case(name="status_unknown", line="status marketting"),
    Case(name="status_watch_piped", line="status -w", columns=None),
    Case(name="names", line="completion names mark", columns=None),
    Case(name="names_of_target", line="completion names triage/s", columns=None),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("look")
    asyncio.run(write_mixed_state_fleet(made))
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_output_matches_the_golden_file(case: Case, cli: CommandLine, folder: Path) -> None:
    cli.folder = folder
    cli.run("list")  # writes the configuration cache that completion reads

    with StateLock(folder / ".herdbeat") if case.has_live_node else nullcontext():
        answer = case.run(cli)

    text = case.transcript(answer).replace(f"pid {os.getpid()}", "pid 4121").replace(str(folder), "~")
    assert text == case.golden(text)


def test_every_golden_file_belongs_to_a_case() -> None:
    assert unmatched_files(CASES) == set()


@pytest.mark.parametrize("case", [case for case in CASES if case.columns], ids=lambda case: case.name)
def test_lines_fit_the_screen(case: Case) -> None:
    assert case.wide_lines() == []
