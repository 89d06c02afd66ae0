"""Random arguments for every command, and random fleet files: an error message, never a traceback."""

import os
from random import Random

import pytest

from herdbeat.cli.table import COMMANDS
from herdbeat.testing.command_line import CommandLine, CommandResult
from herdbeat.testing.herd import open_herd

FLEET = """\
version: 1
timezone: Europe/Berlin
callables: [{ name: poll, call: "fleet:poll", every: 1h }]
"""
WOULD_STAY = {"up", "serve", "mcp", "bench"}
"""With valid arguments they would run for ever; they parse arguments like the others."""

OF_THE_MACHINE = {"service install", "service remove", "service status"}
ASKING = [each for each in COMMANDS if each.name not in WOULD_STAY | OF_THE_MACHINE]


@pytest.fixture
async def fleet(cli: CommandLine) -> CommandLine:
    cli.environ["USER"] = "you"
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    (cli.folder / ".herdbeat").mkdir()
    async with open_herd(cli.folder / ".herdbeat", cli.clock.now()) as herd:
        herd.schedule("poll", every="1h")
        await herd.tick()
    return cli


def is_in_words(answer: CommandResult) -> bool:
    output = answer.out + answer.err
    return "Traceback" not in output and "internal error" not in output


def nonsense(random: Random) -> str:
    """Return an argument as a shell passes it: invalid bytes become surrogates."""
    return os.fsdecode(random.randbytes(random.randint(1, 12)).replace(b"\x00", b"").replace(b"/", b""))


@pytest.mark.parametrize("name", [each.name for each in ASKING])
def test_every_command_rejects_random_arguments_without_a_traceback(fleet: CommandLine, name: str) -> None:
    random = Random(name)
    command = next(each for each in ASKING if each.name == name)
    valued = [option.names[-1] for option in command.options if option.value]

    for _ in range(25):
        option = [random.choice(valued), nonsense(random)] if valued and random.random() < 0.6 else []
        word = random.choice(["poll", "0001", "1", nonsense(random)])
        words = [*command.name.split(), *([word] if command.arguments else []), *option]
        answer = fleet.run(*words)

        assert is_in_words(answer), (words, answer)


def test_a_thousand_files_of_random_bytes_are_rejected_without_a_traceback(cli: CommandLine) -> None:
    random = Random(2026)
    file = cli.folder / "herdbeat.yaml"

    for _ in range(1000):
        file.write_bytes(random.randbytes(random.randint(0, 60)))
        answer = cli.run("validate")

        assert answer.status == 2
        assert is_in_words(answer), (file.read_bytes(), answer)
