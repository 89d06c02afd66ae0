"""Why a program cannot be started, tested with real files."""

import errno
from pathlib import Path

import pytest
from tests.support.runner_jobs import command_spec, make_job

from herdbeat.domain.run import RunStatus
from herdbeat.errors import RunnerError
from herdbeat.runners.process.child import explain_spawn_error
from herdbeat.runners.registry import RunnerRegistry


def script(folder: Path, text: str, mode: int) -> None:
    (folder / "run").write_text(text, encoding="utf-8")
    (folder / "run").chmod(mode)


async def complaint(runners: RunnerRegistry, *argv: str, folder: Path, prompt: str = "") -> str:
    outcome = await runners.run(make_job(command_spec(*argv, folder=str(folder)), prompt=prompt))
    assert outcome.status is RunStatus.FAILED
    return outcome.error


async def test_a_missing_working_directory_is_reported(runners: RunnerRegistry, tmp_path: Path) -> None:
    gone = tmp_path / "gone"

    assert await complaint(runners, "true", folder=gone) == (
        f'The working directory "{gone}" does not exist. Create it, or correct working_directory.'
    )


async def test_a_path_without_a_file_is_reported(runners: RunnerRegistry, tmp_path: Path) -> None:
    assert await complaint(runners, "./run", folder=tmp_path) == (
        f'There is no file "./run" (relative to {tmp_path}). Correct its path.'
    )
    assert await complaint(runners, "/no/run", folder=tmp_path) == 'There is no file "/no/run". Correct its path.'


async def test_a_file_that_is_not_executable_is_reported(runners: RunnerRegistry, tmp_path: Path) -> None:
    script(tmp_path, "#!/bin/sh\n", 0o644)

    assert await complaint(runners, "./run", folder=tmp_path) == (
        '"./run" is not executable. Make it executable (chmod +x), or start it through its interpreter.'
    )


async def test_a_script_without_an_interpreter_line_is_reported(runners: RunnerRegistry, tmp_path: Path) -> None:
    script(tmp_path, "echo hello\n", 0o755)

    assert await complaint(runners, "./run", folder=tmp_path) == (
        '"./run" is not an executable program. If it is a script, add a first line such as #!/bin/sh.'
    )


async def test_a_script_whose_interpreter_is_missing_is_reported(runners: RunnerRegistry, tmp_path: Path) -> None:
    script(tmp_path, "#!/no/such/interpreter\n", 0o755)

    assert await complaint(runners, "./run", folder=tmp_path) == (
        '"./run" has an interpreter in its first line that does not exist. Correct that line.'
    )


async def test_a_prompt_that_is_too_long_for_an_argument_is_reported(runners: RunnerRegistry, tmp_path: Path) -> None:
    assert await complaint(runners, "echo", "{prompt}", folder=tmp_path, prompt="x" * 10_000_000) == (
        "The prompt is too long for an argument. Use {prompt_file} instead of {prompt}, or read it from stdin."
    )


async def test_a_prompt_with_a_nul_in_an_argument_is_reported(runners: RunnerRegistry, tmp_path: Path) -> None:
    assert await complaint(runners, "echo", "{prompt}", folder=tmp_path, prompt="\0") == (
        "The program cannot be started: an argument or environment variable contains a NUL character. Remove it."
    )


def test_a_lack_of_file_descriptors_is_a_runner_error() -> None:
    with pytest.raises(RunnerError, match="No process could be started: Too many open files") as raised:
        explain_spawn_error(OSError(errno.EMFILE, "Too many open files"), ("true",), "/", None)

    assert not raised.value.permanent


def test_any_other_spawn_error_is_the_kernels_message() -> None:
    explanation = explain_spawn_error(OSError(errno.EIO, "Input/output error"), ("true",), "/", None)

    assert explanation == '"true" could not be started: Input/output error.'
