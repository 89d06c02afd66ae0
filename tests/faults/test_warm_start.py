"""The processes of `warm_start` differ from those that are started by a command line in nothing that a test sees."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.warm_start import WarmProcess

PROGRAM = """\
import json, os, random, signal, sys, time
from herdbeat import failpoints
print(json.dumps({
    "name": __name__, "arguments": sys.argv[1:], "folder": os.getcwd(), "path": sys.path[0], "zone": time.tzname[0],
    "environment": {name: os.environ[name] for name in ("TZ", "ONLY_HERE")}, "armed": failpoints._ARMED_FAILPOINT,
    "files": sorted(int(each) for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")),
    "group": os.getpgrp(), "ignored": [each.name for each in signal.valid_signals()
    if isinstance(each, signal.Signals) and signal.getsignal(each) is signal.SIG_IGN],
}), flush=True)
print("to standard error", file=sys.stderr)
if sys.argv[1] == "waits":
    time.sleep(600)
sys.exit(sys.argv[1] if sys.argv[1] == "refuses" else int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "told.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


ENVIRON = {"TZ": "Asia/Tokyo", "ONLY_HERE": "yes", "PATH": os.defpath, "HERDBEAT_CRASH_AT": "after-claim:3:KILL"}


@pytest.mark.parametrize("what", ["0", "3", "refuses"])
def test_it_is_like_a_process_that_was_started_by_its_command_line(folder: Path, what: str) -> None:
    command = [sys.executable, "-m", "told", what]
    cold = subprocess.run(command, cwd=folder, env=ENVIRON, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    with (folder / "log").open("ab") as log:
        warm = WarmProcess("told", what, cwd=folder, env=ENVIRON, stderr=log)
    assert warm.stdout is not None
    printed = warm.stdout.read()
    warm.stdout.close()

    assert warm.wait() == warm.poll() == cold.returncode
    assert json.loads(printed) == json.loads(cold.stdout)
    assert (folder / "log").read_bytes() == cold.stderr


def test_its_death_by_a_signal_is_seen(folder: Path) -> None:
    with (folder / "log").open("ab") as log, WarmProcess("told", "waits", cwd=folder, env=ENVIRON, stderr=log) as warm:
        assert warm.stdout is not None
        warm.stdout.readline()

        assert warm.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            warm.wait(0.01)
        warm.kill()

        assert warm.wait() == -signal.SIGKILL


def test_each_has_random_numbers_of_its_own(folder: Path) -> None:
    (folder / "dice.py").write_text("import random; print(random.random())", encoding="utf-8")
    thrown = set()

    for _ in range(2):
        with (folder / "log").open("ab") as log, WarmProcess("dice", cwd=folder, stderr=log) as warm:
            assert warm.stdout is not None
            thrown.add(warm.stdout.read())

    assert len(thrown) == 2
