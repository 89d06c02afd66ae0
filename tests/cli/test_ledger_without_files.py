"""Views of a fleet without files: a Python program keeps its ledger in a state directory."""

from datetime import timedelta

import pytest

from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import open_herd

FLEET = 'version: 1\ncommands: [{ name: other, command: ["true"], every: 1h }]\n'


@pytest.fixture
async def program(cli: CommandLine) -> CommandLine:
    """What a `Herd()` leaves behind in the folder that it was started in."""
    cli.environ["USER"] = "you"
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now()) as herd:
        herd.schedule("poll", every="1h")
        await herd.tick()
    assert isinstance(cli.clock, FakeClock)
    cli.clock.advance(timedelta(minutes=1))
    return cli


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("status",), "herd   "),
        (("list",), "poll      every 1h  ✓ ok   1m ago  59m   ✓"),
        (("next",), "1  Thu 26 Mar 2026  14:04 UTC"),
        (("explain", "poll"), "the next run would be in 59m because of baseline every 1h"),
        (("show", "poll"), "poll   ✓ ok   every 1h   ✓"),
        (("runs",), "0001  poll"),
        (("beats",), "✓ ran"),
        (("timeline",), "poll"),
        (("changes",), "when every 1h"),
        (("state",), "last_run_at"),
        (("pause", "poll"), "Paused poll"),
        (("completion", "names", "po"), "poll\tok"),
    ],
)
def test_every_view_works_on_a_ledger_without_files(
    program: CommandLine, words: tuple[str, ...], expected: str
) -> None:
    answer = program.run(*words)

    assert (answer.status, expected in answer.out) == (0, True), answer


def test_the_ledger_is_found_from_subfolders_and_by_its_folder(program: CommandLine) -> None:
    below = program.folder / "src" / "deep"
    below.mkdir(parents=True)
    inside, elsewhere = (CommandLine(folder=each, clock=program.clock) for each in (below, program.folder.parent))

    expected = [
        inside.run("list", "--plain"),
        elsewhere.run("list", "--plain", "-c", str(program.folder / ".herdbeat")),
        elsewhere.run("list", "--plain", "-c", str(program.folder)),
        elsewhere.run("list", "--plain", HERDBEAT_CONFIG=str(program.folder / ".herdbeat")),
    ]

    assert [each.out.partition("\t")[0] for each in expected] == ["poll"] * 4


def test_a_fleet_file_has_priority_also_from_a_parent_folder(program: CommandLine) -> None:
    (program.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    below = program.folder / "below"
    (below / ".herdbeat").mkdir(parents=True)
    (below / ".herdbeat" / "herdbeat.db").write_bytes((program.folder / ".herdbeat" / "herdbeat.db").read_bytes())

    named = CommandLine(folder=below, clock=program.clock).run("next", "--plain").lines()

    assert {line.split("\t")[1] for line in named} == {"other"}


def test_a_mistyped_name_gets_a_suggestion_there_too(program: CommandLine) -> None:
    answers = [program.run(command, "pol") for command in ("explain", "next", "pause", "show", "runs")]

    assert [each.status for each in answers] == [3] * 5
    assert all('did you mean "poll"?' in each.err for each in answers)


def test_commands_that_need_files_report_that_there_are_none(program: CommandLine) -> None:
    answer = program.run("validate")

    assert answer.status == 2
    assert "There is no herdbeat.yaml" in answer.out
