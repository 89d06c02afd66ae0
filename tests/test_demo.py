"""`make demo`: its fleet is valid, its broken one has five faults, and it stays in its folder."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

DEMO = Path(__file__).parent.parent / "demo"
CLOCK = FakeClock(datetime(2026, 3, 2, 8, 0, tzinfo=UTC))


def test_the_fleet_of_the_demo_has_no_warning_but_of_what_does_not_work_yet() -> None:
    answer = CommandLine(folder=DEMO / "fleet", clock=CLOCK).run("validate", "--json")

    assert {problem["code"] for problem in answer.json()["problems"]} <= {"not_yet"}


def test_the_broken_fleet_has_five_different_mistakes() -> None:
    answer = CommandLine(folder=DEMO / "broken", clock=CLOCK).run("validate", "--json")

    problems = [problem for problem in answer.json()["problems"] if problem["severity"] == "error"]
    assert len(problems) == 5
    assert {problem["code"] for problem in problems} == {
        "invalid_interval",
        "unknown_template_name",
        "unknown_key",
        "never_fires",
        "invalid_cron",
    }


@pytest.mark.parametrize("script", ["run", "tour"])
def test_the_demo_runs_fits_the_screen_and_writes_only_into_its_folder(tmp_path: Path, script: str) -> None:
    shutil.copytree(DEMO, tmp_path / "demo")
    programs = Path(sys.executable).parent
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "DEMO_SECONDS": "3"}

    done = subprocess.run(
        ["bash", tmp_path / "demo" / script],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )

    assert (done.returncode, "internal error" in done.stderr) == (0, False)
    too_long = [line for line in done.stdout.splitlines() if len(line.replace(str(tmp_path), "~")) > 80]
    assert too_long == []
    assert {path.name for path in tmp_path.iterdir()} == {"demo", ".demo"}
