"""What the doctor says of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from herdbeat.service.maintenance.doctor import FindingLevel
from herdbeat.service.maintenance.doctor.machine import check_clock, check_other_schedulers, read_tzdata_version


def test_the_version_of_the_zone_data_is_named() -> None:
    assert read_tzdata_version()[:2] == "20"


def test_the_clock_is_always_said_something_about() -> None:
    assert "zone data 20" in check_clock().text


@pytest.mark.parametrize(("pid", "count"), [(os.getpid(), 1), (2**22 + 1, 0)], ids=["alive", "gone"])
def test_a_herdctl_that_lives_in_the_same_folder_is_warned_about(tmp_path: Path, pid: int, count: int) -> None:
    (tmp_path / ".herdctl").mkdir()
    (tmp_path / ".herdctl" / "herdctl.pid").write_text(f"{pid}\n")

    found = list(check_other_schedulers(tmp_path, None))

    assert [each.level for each in found] == [FindingLevel.WARNING] * count


def test_a_folder_of_its_own_has_no_other_scheduler(tmp_path: Path) -> None:
    assert list(check_other_schedulers(tmp_path, None)) == []


WRAPPER = """# looks like: timeout 1h herdbeat up
import subprocess
with subprocess.Popen(["cat"]) as fleet:
    print(fleet.pid, flush=True)
"""


def test_the_program_that_started_the_fleet_is_not_taken_for_a_second_one(tmp_path: Path) -> None:
    """`timeout 1h herdbeat up` was; doctor said to kill it, which would have stopped the fleet."""
    words = [sys.executable, "-c", WRAPPER, "up"]
    home = tmp_path.resolve()
    with subprocess.Popen(words, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as wrapper:
        assert wrapper.stdout is not None
        fleet = int(wrapper.stdout.readline())

        stranger, own = list(check_other_schedulers(home, None)), list(check_other_schedulers(home, fleet))
        wrapper.communicate()

    assert (len(stranger), own) == (1, [])


FORKING = """# looks like: herdbeat up
import os, sys
if child := os.fork():
    print(child, flush=True)
    os.wait()
else:
    sys.stdin.read()
"""


def test_a_run_that_was_just_starting_was_taken_for_a_second_scheduler(tmp_path: Path) -> None:
    """Between fork and exec it has the command line of the scheduler; doctor said to kill it."""
    words = [sys.executable, "-c", FORKING, "up"]
    home = tmp_path.resolve()
    with subprocess.Popen(words, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as fleet:
        assert fleet.stdout is not None
        fleet.stdout.readline()

        strangers, own = list(check_other_schedulers(home, None)), list(check_other_schedulers(home, fleet.pid))
        fleet.communicate()

    assert (len(strangers), own) == (2, [])
