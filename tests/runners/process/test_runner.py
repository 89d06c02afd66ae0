"""Real, short programs."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.runner_jobs import NOON, command_spec, make_job, shell_spec

from herdbeat.domain.run import RunStatus
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import LogLine, LogStream, find_log, read_log
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock


def lines_of(settings: RunnerSettings, run_id: int) -> list[LogLine]:
    path = find_log(settings.state_dir, run_id)
    return [] if path is None else read_log(path)


async def test_a_program_that_exits_with_zero_has_succeeded(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(command_spec("echo", "hello")))

    assert (outcome.status, outcome.code, outcome.output, outcome.error) == (RunStatus.SUCCEEDED, 0, "hello\n", "")


async def test_the_last_line_on_stderr_says_why_it_failed(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(shell_spec("echo working; echo first >&2; echo no such table >&2; exit 3")))

    assert (outcome.status, outcome.code, outcome.error) == (RunStatus.FAILED, 3, "no such table")
    assert sorted(outcome.output.splitlines()) == ["first", "no such table", "working"]


async def test_a_silent_failure_has_its_exit_code_as_error(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(shell_spec("exit 3")))

    assert outcome.error == "exit code 3"


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [
        ("kill -KILL $$", 137, "killed by SIGKILL"),
        ("echo low memory >&2; kill -SEGV $$", 139, "killed by SIGSEGV: low memory"),
        ("kill -40 $$", 168, "killed by signal 40"),
    ],
)
async def test_a_killed_program_names_its_signal(runners: RunnerRegistry, script: str, code: int, error: str) -> None:
    outcome = await runners.run(make_job(shell_spec(f"ulimit -c 0; {script}")))

    assert outcome.status is RunStatus.FAILED
    assert outcome.error == error
    assert outcome.code == code


async def test_the_prompt_is_written_to_stdin(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(command_spec("cat"), prompt="Write it down. äöü"))

    assert outcome.output == "Write it down. äöü"


async def test_without_a_prompt_stdin_is_empty(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(command_spec("cat")))

    assert (outcome.status, outcome.output) == (RunStatus.SUCCEEDED, "")


async def test_the_prompt_can_be_an_argument_and_is_never_read_by_a_shell(runners: RunnerRegistry) -> None:
    outcome = await runners.run(
        make_job(command_spec("echo", "-n", "say: {prompt}"), prompt="$(id); `id` {prompt_file}")
    )

    assert outcome.output == "say: $(id); `id` {prompt_file}"


async def test_the_prompt_can_be_a_private_file_that_is_removed_afterwards(
    runners: RunnerRegistry, settings: RunnerSettings
) -> None:
    script = 'cat "$1"; echo; stat -c %a "$1"'

    outcome = await runners.run(make_job(command_spec("sh", "-c", script, "sh", "{prompt_file}"), prompt="words"))

    assert outcome.output == "words\n600\n"
    assert list((settings.state_dir / "prompts").iterdir()) == []


async def test_a_program_gets_only_the_allowed_variables(runners: RunnerRegistry) -> None:
    outcome = await runners.run(make_job(command_spec("env", env=("OUR_TOKEN",)), run_id=237684))

    seen = dict(line.split("=", 1) for line in outcome.output.splitlines())
    node = seen.pop("HERDBEAT_NODE")
    assert seen == {
        "PATH": os.environ["PATH"],
        "LC_TIME": "C",
        "OUR_TOKEN": "token",
        "HERDBEAT_SCHEDULE": "scribe/hourly",
        "HERDBEAT_BEAT": "scribe/hourly:cron:2026-03-02T12:00:00Z",
        "HERDBEAT_RUN": "783m",
        "HERDBEAT_ATTEMPT": "1",
        "HERDBEAT_DUE_AT": "2026-03-02T12:00:00Z",
        "HERDBEAT_FENCE": "7",
    }
    assert node.split(".")[1] == str(os.getpid())


async def test_a_named_variable_that_the_node_lacks_is_noted(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    await runners.run(make_job(command_spec("true", env=("GITHUB_TOKEN",)), run_id=5))

    note = "GITHUB_TOKEN is listed in env, but is not set in the environment of the node"
    assert lines_of(settings, 5) == [LogLine(at=NOON, stream=LogStream.NOTE, text=note)]


async def test_a_child_inherits_no_open_file_of_the_node(runners: RunnerRegistry) -> None:
    ours = os.dup(0)
    os.set_inheritable(ours, True)

    outcome = await runners.run(make_job(command_spec("ls", "/proc/self/fd")))
    os.close(ours)

    assert outcome.output.split() == ["0", "1", "2", "3"]  # 3 is the folder that ls itself reads


async def test_a_program_runs_in_its_folder(runners: RunnerRegistry, tmp_path: Path) -> None:
    outcome = await runners.run(make_job(command_spec("pwd", folder=str(tmp_path))))

    assert outcome.output == f"{tmp_path}\n"


async def test_one_json_object_on_stdout_is_the_response(runners: RunnerRegistry) -> None:
    answer = {"queue": 17, "names": ["ä"]}

    outcome = await runners.run(make_job(command_spec("cat"), prompt=json.dumps(answer, indent=2)))

    assert outcome.response == answer


@pytest.mark.parametrize("words", ["17", "[1]", "{not json}", 'first {"a": 1}', '{"a": 1} {"b": 2}'])
async def test_output_that_is_not_a_json_object_is_not_stored_as_response(runners: RunnerRegistry, words: str) -> None:
    outcome = await runners.run(make_job(command_spec("cat"), prompt=words))

    assert (outcome.output, outcome.response) == (words, None)


async def test_the_log_has_the_output_with_its_stream(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    await runners.run(make_job(shell_spec("echo one; echo two >&2"), run_id=9))

    lines = lines_of(settings, 9)
    assert {(line.stream, line.text) for line in lines} == {(LogStream.OUT, "one"), (LogStream.ERR, "two")}


async def test_a_silent_program_leaves_no_log(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    await runners.run(make_job(command_spec("true")))

    assert not (settings.state_dir / "logs").exists()


async def test_invalid_utf8_is_replaced(runners: RunnerRegistry, settings: RunnerSettings) -> None:
    outcome = await runners.run(make_job(command_spec("printf", r"a\377\000\n"), run_id=11))

    assert outcome.output == "a\ufffd\ufffd\n"
    assert [line.text for line in lines_of(settings, 11)] == ["a\ufffd\0"]


async def test_a_failure_is_recognized_although_the_node_was_started_with_sigchld_ignored(
    settings: RunnerSettings,
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    async with open_runners(settings, FakeClock(NOON)) as runners:
        outcome = await runners.run(make_job(shell_spec("exit 3")))
    signal.signal(signal.SIGCHLD, before)

    assert outcome.code == 3


async def test_prompts_that_a_killed_node_left_behind_are_removed(settings: RunnerSettings) -> None:
    left = settings.state_dir / "prompts" / "0007.md"
    left.parent.mkdir(parents=True)
    left.touch()

    async with open_runners(settings, FakeClock(NOON)):
        is_there = left.exists()

    assert not is_there


async def test_each_node_runs_a_command_in_its_own_folder_and_not_where_the_fleet_was_applied(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    places = [tmp_path / name / "desk" for name in ("here", "there")]
    for each in places:
        each.mkdir(parents=True)

    outputs = []
    for each in places:
        async with open_runners(replace(settings, home=each.parent), FakeClock(NOON)) as runners:
            outputs.append((await runners.run(make_job(command_spec("pwd", folder="desk")))).output)

    assert outputs == [f"{each}\n" for each in places]


async def test_an_absolute_folder_is_the_same_for_every_node(settings: RunnerSettings, tmp_path: Path) -> None:
    async with open_runners(replace(settings, home=Path("/nowhere")), FakeClock(NOON)) as runners:
        outcome = await runners.run(make_job(command_spec("pwd", folder=str(tmp_path))))

    assert outcome.output == f"{tmp_path}\n"
