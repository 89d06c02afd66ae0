"""The fake agent as a program: what its words make it do, in the lines of each CLI."""

import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.agent_output import NOW, get_end

from herdbeat.domain.agent_run import FinishReason
from herdbeat.runners.agents.events import ProcessEnd, ToolCall
from herdbeat.runners.agents.parsers import ParserName, open_parser
from herdbeat.testing.fake_agent import SPEAKERS, find_words, parse_arguments


def speak(prompt: str, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[bytes]":
    argv = [sys.executable, "-P", "-m", "herdbeat.testing.fake_agent", *arguments]
    return subprocess.run(argv, input=prompt.encode(), capture_output=True, cwd=folder, timeout=60, check=False)


@pytest.mark.parametrize("speaks", [each for each in SPEAKERS if each != "text"])
@pytest.mark.parametrize(
    ("words", "reason"), [("", FinishReason.COMPLETED), ("fake:limit=90s", FinishReason.RATE_LIMITED)]
)
def test_the_lines_of_every_cli_are_understood(speaks: str, words: str, reason: FinishReason, tmp_path: Path) -> None:
    done = speak(f"Look. {words}", "--as", speaks, folder=tmp_path)

    parser = open_parser(ParserName(speaks), ZoneInfo("UTC"))
    events = parser.feed(done.stdout, NOW) + parser.close(ProcessEnd(code=done.returncode), NOW)
    assert get_end(events).reason is reason
    assert len([each for each in events if isinstance(each, ToolCall)]) == (0 if words else 2)


def test_words_come_from_the_prompt_and_from_arguments() -> None:
    arguments = parse_arguments(["-p", "--fake", "cost=2", "--model=opus", "--resume=s-1", "--unknown"])

    assert (arguments.model, arguments.resumes) == ("opus", "s-1")
    assert find_words("Do it. fake:cost=1 fake:quiet not-fake:hang", arguments.words) == {"cost": "2", "quiet": ""}
