"""Every fleet in examples/ runs as it is: no problem that matters, and a first run that succeeds."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.running_fleet import RunningFleet

from herdbeat.bootstrap.config import load_config
from herdbeat.error_codes import Code

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/herdbeat.yaml"))


@pytest.fixture
def example(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RunningFleet:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLES / request.param, folder, ignore=shutil.ignore_patterns(".herdbeat"))
    text = (folder / "herdbeat.yaml").read_text(encoding="utf-8")
    fleet = RunningFleet(folder)
    fleet.write(text)
    return fleet


def test_there_are_a_dozen_and_the_page_lists_them() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert len(NAMES) >= 12
    assert [name for name in NAMES if f"({name}/herdbeat.yaml)" not in page] == []


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_valid(name: str) -> None:
    result = load_config(str(EXAMPLES / name), {}, EXAMPLES)

    assert [each for each in result.problems if each.code is not Code.NOT_YET] == []


@pytest.mark.parametrize("example", NAMES, indirect=True)
def test_the_first_run_of_an_example_succeeds(example: RunningFleet) -> None:
    with example.up():
        for label in example.labels()[:3]:
            done = example.call("run", label, "--wait", "--queue")

            assert done.returncode == 0, done.stdout + done.stderr
