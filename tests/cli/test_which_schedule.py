"""A target with several schedules, moments ahead, and periods of the past: what is meant is asked, or said."""

from datetime import timedelta

import pytest

from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import open_herd


@pytest.fixture
async def program(cli: CommandLine) -> CommandLine:
    """A target with two schedules, a target with one, and one whose first schedule has the target's own name."""
    cli.environ |= {"USER": "you", "TZ": "UTC"}
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now()) as herd:
        herd.schedule("job/a", every="10m")
        herd.schedule("job/b", cron="0 9 * * *")
        herd.schedule("single/only", every="1h")
        await herd.tick()
    assert isinstance(cli.clock, FakeClock)
    cli.clock.advance(timedelta(minutes=1))
    return cli


@pytest.mark.parametrize("words", [("run",), ("explain",), ("backfill", "--from", "2d")])
def test_a_target_with_several_schedules_is_refused_with_the_list(program: CommandLine, words: tuple[str, ...]) -> None:
    answer = program.run(words[0], "job", *words[1:])

    assert answer.status == 2
    assert "job has 2 schedules: job/a, job/b." in answer.err
    assert len(program.run("beats", "--json").json()["items"]) == 2  # nothing was added


def test_on_a_terminal_the_schedule_is_asked_for(program: CommandLine) -> None:
    program.typed = "2\n"

    answer = program.run("explain", "job", "--json")
    assert answer.status == 2  # a script cannot be asked

    answer = program.run("explain", "job")
    assert "Choose a schedule [1-2]:" in answer.err
    assert "job/b" in answer.out


def test_a_target_with_one_schedule_needs_no_other_name(program: CommandLine) -> None:
    assert "single/only" in program.run("explain", "single").out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("job/b", "--at", "tomorrow 09:00"),
            "job/b is due Fri 27 Mar 09:00:00 UTC and, if the scheduler were running, would run in",
        ),
        (("job/a", "--at", "+9m"), "job/a is due Thu 26 Mar 13:14:00 UTC"),
        (("job/a", "--at", "in 5m"), "job/a has no beat planned for Thu 26 Mar 13:10:00 UTC (not_due)."),
        (("job/b", "--at", "2035-01-01T09:00:00Z"), "job/b is due Mon 01 Jan 2035 09:00:00 UTC"),
    ],
)
def test_explain_of_a_moment_ahead_answers_from_the_forecast(
    program: CommandLine, words: tuple[str, ...], expected: str
) -> None:
    assert expected in program.run("explain", *words).out


def test_explain_of_a_moment_ahead_knows_pauses_skips_and_hints(program: CommandLine) -> None:
    program.run("skip", "job/b")
    assert "will be skipped by request" not in program.run("explain", "job/b", "--at", "+1h").out
    assert "skipped by request" in program.run("explain", "job/b", "--at", "tomorrow 09:00").out
    program.run("pause", "job/b", "--for", "3d")
    assert "during its pause: it will be skipped." in program.run("explain", "job/b", "--at", "tomorrow 09:00").out
    program.run("hint", "job/a", "--every", "2m", "--for", "30m")
    assert "because of ai-interval" in program.run("explain", "job/a", "--at", "+3m").out
    program.run("disable", "job/a")
    assert "disabled by human:you" in program.run("explain", "job/a", "--at", "+3m").out


def test_the_end_of_a_backfill_is_not_a_bare_duration(program: CommandLine) -> None:
    answer = program.run("backfill", "job/b", "--from", "3d", "--until", "5m")

    assert answer.status == 2
    assert 'Use "5m ago"' in answer.err


def test_a_backfill_says_its_window_in_absolute_times(program: CommandLine) -> None:
    answer = program.run("backfill", "job/b", "--from", "3d", "--until", "1d ago")

    assert "This runs 2 past times of job/b from Mon 23 Mar 13:05:00 UTC to Wed 25 Mar 13:05:00 UTC now." in answer.err
    assert answer.status == 0
