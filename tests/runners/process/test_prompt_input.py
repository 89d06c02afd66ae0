"""How a program gets its prompt."""

from pathlib import Path

import pytest

from herdbeat.errors import RunnerError
from herdbeat.runners.process.runner import prepare_command


@pytest.mark.parametrize(
    ("command", "argv", "stdin"),
    [
        (("cat",), ("cat",), b"hi"),
        (("say", "{prompt}"), ("say", "hi"), b""),
        (("say", "-m={prompt}!", "{prompt}"), ("say", "-m=hi!", "hi"), b""),
        (("say", "{other}"), ("say", "{other}"), b"hi"),
        (("{prompt}", "x"), ("{prompt}", "x"), b"hi"),
    ],
)
def test_the_placeholders_decide_where_the_prompt_goes(
    tmp_path: Path, command: tuple[str, ...], argv: tuple[str, ...], stdin: bytes
) -> None:
    with prepare_command(command, "hi", tmp_path / "prompt.md") as prepared:
        is_in_file = (tmp_path / "prompt.md").exists()

    assert (prepared, is_in_file) == ((argv, stdin), False)


def test_a_prompt_file_that_cannot_be_written_is_a_runner_error(tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("a file where a folder should be", encoding="utf-8")

    with (
        pytest.raises(RunnerError, match=r"The prompt could not be written to .*: File exists") as raised,
        prepare_command(("cat", "{prompt_file}"), "hi", tmp_path / "prompts" / "0007.md"),
    ):
        pass

    assert not raised.value.permanent


def test_a_prompt_file_exists_only_while_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "prompts" / "0007.md"

    with prepare_command(("cat", "--file={prompt_file}"), "hi \ud800", file) as prepared:
        text = file.read_text(encoding="utf-8")

    assert (prepared, text) == ((("cat", f"--file={file}"), b""), "hi ?")
    assert not file.exists()
