"""A part that could not be installed: its tests are reported as not run, and a run of nothing has not succeeded."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.system.parts import ROOT, read_states

REASON = "`npm install` failed: the registry is on holiday"


def run_tests_without_claude(tmp_path: Path, chosen: str) -> subprocess.CompletedProcess[str]:
    states = read_states()
    states["claude"] = replace(states["claude"], program="", missing=REASON)
    parts = tmp_path / "parts.json"
    parts.write_text(json.dumps([asdict(each) for each in states.values()]), encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    argv = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}"]
    return subprocess.run(
        [*argv, "tests/system/test_agent_clis.py", "-k", chosen],
        cwd=ROOT,
        env=environ | {"HERDBEAT_SYSTEM_PARTS": str(parts)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.needs("codex")
def test_a_missing_part_is_in_the_summary_and_counts_as_not_run(tmp_path: Path) -> None:
    done = run_tests_without_claude(tmp_path, "failing_api and 529")

    assert "1 passed, 1 not run" in done.stdout, done.stdout + done.stderr
    assert "1 tests were NOT RUN" in done.stdout
    assert f"claude: {REASON}" in done.stdout
    assert done.returncode == 0


def test_a_run_in_which_nothing_ran_does_not_succeed(tmp_path: Path) -> None:
    done = run_tests_without_claude(tmp_path, "failing_api and claude")

    assert "2 not run" in done.stdout, done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
