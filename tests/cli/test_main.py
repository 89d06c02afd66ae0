"""Every command ends with a message and an exit status, never with a traceback."""

import errno
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from herdbeat import __version__
from herdbeat.testing.command_line import CommandLine

FLEET = Path(__file__).parent / "fleet"


class BrokenClock:
    """A clock that raises."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def now(self) -> datetime:
        raise self._error


def test_no_arguments_print_a_short_help_without_an_error(cli: CommandLine) -> None:
    answer = cli.run()

    assert answer.status == 0
    assert 12 <= len(answer.lines()) <= 22  # one small screen, with its prompt
    assert answer.err == ""


def test_the_version_is_that_of_the_package(cli: CommandLine) -> None:
    assert cli.run("--version").out == f"herdbeat {__version__}\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("validate",), 0),
        (("validate", "warned.yaml"), 0),
        (("validate", "warned.yaml", "--strict"), 2),
        (("validate", "broken.yaml"), 2),
        (("next", "@daily"), 0),
        (("next", "5x"), 2),
        (("next", "no-such-target"), 3),
        (("config", "show", "no-such-target"), 3),
        (("frobnicate",), 2),
        (("next", "-n", "0"), 2),
        (("next", "-n", "1000000"), 2),
        (("next", "-n", "٣"), 2),
        (("next", "@daily", "--tz", "Europe/Berln"), 2),
        (("next", "@daily", "--tz", "UTC", "--utc"), 2),
        (("next", "@daily", "--until", "-1h"), 2),
        (("next", "@daily", "--from", "tomorrow"), 2),
        (("next", "5m", "--cron", "@daily"), 2),
        (("validate", "broken.yaml", "-c", "warned.yaml"), 2),
        (("config", "show", "herdbeat.yaml", "-c", "warned.yaml"), 2),
    ],
)
def test_the_exit_status_reflects_the_result(cli: CommandLine, words: tuple[str, ...], status: int) -> None:
    cli.folder = FLEET

    answer = cli.run(*words)

    assert answer.status == status
    assert bool(answer.out) is (status == 0 or (words[0] == "validate" and "-c" not in words))


def test_a_folder_without_a_fleet_gets_a_hint(cli: CommandLine) -> None:
    answer = cli.run("next")

    assert answer.status == 2
    assert "herdbeat.yaml" in answer.err
    assert "--config" in answer.err


def test_ctrl_c_ends_quietly(cli: CommandLine) -> None:
    cli.clock = BrokenClock(KeyboardInterrupt())

    answer = cli.run("next", "@daily")

    assert (answer.status, answer.out, answer.err) == (130, "", "")


def test_an_internal_error_prints_one_line_and_how_to_report_it(cli: CommandLine) -> None:
    cli.clock = BrokenClock(ZeroDivisionError("no\nway"))

    answer = cli.run("next", "@daily")

    assert answer.status == 1
    assert answer.err.splitlines()[0] == "error: internal error (ZeroDivisionError: no way)."
    assert "HERDBEAT_DEBUG=1" in answer.err


def test_a_state_directory_of_another_user_is_not_reported_as_an_internal_error(cli: CommandLine) -> None:
    cli.clock = BrokenClock(PermissionError(13, "Permission denied", "/srv/.herdbeat/herdbeat.db"))

    answer = cli.run("next", "@daily")

    assert answer.status == 1
    assert answer.err.splitlines() == [
        "error: /srv/.herdbeat/herdbeat.db: Permission denied.",
        "  Give this user read and write permission, or run herdbeat as the owner of the file.",
    ]


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENAMETOOLONG, "Use a shorter name."), (errno.ENOSPC, "Free some space on this disk.")]
)
def test_a_name_that_is_too_long_was_reported_as_a_bug_of_herdbeat(cli: CommandLine, number: int, hint: str) -> None:
    cli.clock = BrokenClock(OSError(number, os.strerror(number), "/srv/" + "x" * 1_000))

    answer = cli.run("next", "@daily")

    first, second = answer.err.splitlines()
    assert answer.status == 1
    assert first.startswith("error: /srv/xxx")
    assert first.endswith(f"…: {os.strerror(number)}.")
    assert len(first) < 300
    assert second == f"  {hint}"


def test_an_internal_error_prints_its_traceback_on_request(cli: CommandLine) -> None:
    cli.clock = BrokenClock(ZeroDivisionError())

    answer = cli.run("next", "@daily", HERDBEAT_DEBUG="1")

    assert answer.status == 1
    assert "Traceback" in answer.err
    assert "ZeroDivisionError" in answer.err


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -c 'import sys; from herdbeat.cli.main import main; sys.exit(main())'"

    done = subprocess.run(
        ["bash", "-c", f'{command} next "* * * * * *" -n 30000 | head -n 1; exit "${{PIPESTATUS[0]}}"'],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 141
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("next @daily >&-", 0, ""),
        ("nxt 2>&-", 2, ""),
        ("next @daily >/dev/full", 1, "error: The output cannot be written: No space left on device.\n"),
        ("next @daily -n 1 >/dev/null; rm -r $PWD; herdbeat next @daily -n 1 >/dev/null", 0, ""),
    ],
)
def test_an_unusable_stdout_or_working_directory_prints_no_traceback(
    tmp_path: Path, line: str, status: int, message: str
) -> None:
    script = f'herdbeat() {{ {sys.executable} -m herdbeat "$@"; }}; herdbeat {line}'

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (status, message)


# `herdbeat.faces.cli` stays an entry point: installed services start it by that name.
@pytest.mark.parametrize("module", ["herdbeat", "herdbeat.faces.cli"])
def test_python_runs_the_package_as_the_script_does(tmp_path: Path, module: str) -> None:
    argv = [sys.executable, "-m", module, "frobnicate"]

    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('error: Unknown command "frobnicate"')


def test_a_limited_encoding_prints_question_marks_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "herdbeat", "validate", "-c", FLEET / "herdbeat.yaml"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert done.returncode == 0
    assert b"\n? " in done.stdout


def test_a_thousand_random_byte_strings_print_an_error_without_a_traceback(cli: CommandLine) -> None:
    """Return arguments as a shell passes them: invalid bytes become surrogates."""
    random = Random(2026)
    commands = ["", "next", "validate", "config", "schema", "completion", "--tz", "--from", "-n", "--json", "-c"]

    for _ in range(1000):
        junk = [os.fsdecode(random.randbytes(random.randint(1, 12)).replace(b"\x00", b"")) for _ in range(2)]
        words = [random.choice(commands), *junk]
        answer = cli.run(*words)

        assert answer.status in (0, 2, 3), words
        assert "Traceback" not in answer.err
        assert "internal error" not in answer.err, (words, answer.err)


def test_the_home_of_a_user_who_does_not_exist_was_an_internal_error(cli: CommandLine) -> None:
    (cli.folder / "herdbeat.yaml").write_text(
        "agents: [{name: a, runtime: command, command: [cat], every: 1h, prompt: hi}]", encoding="utf-8"
    )

    answer = cli.run("run", "a", "--prompt-file", "~nobody-here/prompt.txt")

    assert answer.status == 2
    assert answer.err.startswith("error: ~nobody-here/prompt.txt cannot be read: No such file or directory.")
