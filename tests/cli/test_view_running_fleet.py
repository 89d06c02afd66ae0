"""`logs -f`, `status -w` and completion as real processes, on a real terminal where they need one."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.commands.test_up import PROCESS_TIMEOUT, UpFleet

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def fleet(tmp_path: Path) -> UpFleet:
    return UpFleet(tmp_path)


@contextmanager
def following(fleet: UpFleet, *words: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "herdbeat", "logs", "-f", *words]
    with subprocess.Popen(argv, cwd=fleet.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: subprocess.Popen[str], ending: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.rstrip().endswith(ending):
            return line
    raise AssertionError(f"it ended without {ending!r}")


def test_a_follower_shows_runs_of_another_process_and_ends_quietly_by_ctrl_c(fleet: UpFleet) -> None:
    with fleet.up():
        fleet.call("run", "quick", "--wait")
        with following(fleet, "quick") as process:
            first = read_line(process, "  hello")
            fleet.call("run", "quick", "--wait")
            second = read_line(process, "  hello")

            process.send_signal(signal.SIGINT)
            status = process.wait(PROCESS_TIMEOUT)

            assert process.stderr is not None
            assert process.stderr.read() == ""
    assert " quick 0001 " in first
    assert " quick 0002 " in second
    assert status == 130


def test_a_follower_of_one_run_ends_with_it(fleet: UpFleet) -> None:
    with fleet.up():
        fleet.call("run", "broken", "--wait")

        followed = fleet.call("logs", "-f", "0001")

    assert followed.returncode == 0
    assert "broken 0001 ✗ failed" in followed.stdout


def test_watching_uses_the_alternate_screen_and_restores_the_terminal(fleet: UpFleet) -> None:
    with fleet.up():
        fleet.call("list")
        screen, keyboard = pty.openpty()
        fcntl.ioctl(keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        argv = [sys.executable, "-m", "herdbeat", "status", "-w"]
        with subprocess.Popen(argv, cwd=fleet.folder, stdin=keyboard, stdout=keyboard, stderr=keyboard) as process:
            os.close(keyboard)
            begun = _read_until(screen, b"4 schedules")
            process.send_signal(signal.SIGTERM)
            ended = _read_until(screen, LEAVE.encode())
            status = process.wait(PROCESS_TIMEOUT)
        os.close(screen)

    assert begun.startswith(ENTER)
    assert ended.endswith(LEAVE)
    assert status == 130


def _read_until(screen: int, wanted: bytes) -> str:
    seen = b""
    while wanted not in seen:
        seen += os.read(screen, 4096)
    return seen.decode(errors="replace")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["herdbeat", "explain", "qu"], ["quick"]),
        (["herdbeat", "list", ""], ["broken", "endless", "quick", "yearly"]),
        (["herdbeat", "show", "yearly", "--js"], ["--json"]),
        (["herdbeat", "schema", "qu"], []),
    ],
)
def test_bash_offers_the_names_that_are_in_the_ledger(fleet: UpFleet, typed: list[str], offered: list[str]) -> None:
    with fleet.up():
        fleet.call("list")
    script = fleet.call("completion", "bash").stdout
    words = " ".join(f"'{word}'" for word in typed)
    asked = f'COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _herdbeat; printf "%s\\n" "${{COMPREPLY[@]}}"'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{asked}"],
        cwd=fleet.folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    names = [each for each in done.stdout.split() if not each.startswith("-") or typed[-1].startswith("-")]
    assert (done.stderr, names) == ("", offered)


@pytest.mark.parametrize("words", [("completion", "names", "qu"), ("list",), ("status",)])
def test_a_view_takes_little_cpu_time_with_the_configuration_cache(fleet: UpFleet, words: tuple[str, ...]) -> None:
    with fleet.up():
        fleet.call("list")

    spent = min(_cpu(fleet, *words) for _ in range(5))

    # Twice the time of an idle machine: it catches a command that reads YAML again, or loads the scheduler.
    assert spent < {"completion": 0.15}.get(words[0], 0.3)


def _cpu(fleet: UpFleet, *words: str) -> float:
    argv = [sys.executable, "-m", "herdbeat", *words]
    child = subprocess.Popen(argv, cwd=fleet.folder, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(child.pid, 0)
    child.returncode = 0
    return used.ru_utime + used.ru_stime
