"""`herdbeat simulate`: what it prints and refuses, and that it leaves no trace."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

FLEET = """\
version: 1
fleet: { name: "shop <b>" }
timezone: Europe/Berlin
agents:
  - name: triage
    runtime: claude
    schedules: { night: { type: cron, cron: "30 2 * * *", prompt: Work. } }
commands:
  - { name: marker, command: [touch, marker], every: 6h }
  - { name: noon, command: [x], cron: "0 12 * * *" }
"""
SCREEN = """\
shop <b>   4d from Fri 27 Mar 12:00 CET   seed 3

SCHEDULE      BEATS  RUNS  FAILED  MISSED  SKIPPED  COST   LATE  FROM
triage/night  4      4     0       0       0        $2.00  –     given
marker        16     16    0       0       0        $0.00  –     given
noon          4      4     0       0       0        $0.00  –     given

runs          24 for 24 beats, 0 failed
not run       0 missed, 0 skipped, 0 merged
cost          $2.00
lateness      0 starts waited, at most 0ms
capacity      at most 1 at once, 0 waited for their target
collisions    0 seconds with several starts
budgets       0 days on which a budget stopped a schedule
odd night     Sun 29 Mar 03:00 CEST  triage/night: 02:30 does not exist that night; runs at 03:00
odd night     Sun 29 Mar 12:00 CEST  noon: clocks went forward on 29 Mar
"""
OPTIONS = ("--days", "4", "--seed", "3", "--duration", "1m", "--failures", "0%", "--cost", "triage=0.5")


@pytest.fixture
def fleet(cli: CommandLine) -> CommandLine:
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    cli.clock = FakeClock(datetime(2026, 3, 27, 11, tzinfo=UTC))
    return cli


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_the_screen_has_the_schedules_the_totals_and_the_odd_nights(fleet: CommandLine) -> None:
    answer = fleet.run("simulate", *OPTIONS)

    assert (answer.status, answer.err) == (0, "")
    assert answer.out == SCREEN


def test_nothing_starts_and_nothing_is_written_but_the_page(fleet: CommandLine) -> None:
    before = files(fleet.folder)

    fleet.run("simulate", *OPTIONS, "--html", "month.html")

    assert files(fleet.folder) - before == {"month.html"}


def test_the_page_needs_nothing_else_and_escapes_every_name(fleet: CommandLine) -> None:
    answer = fleet.run("simulate", *OPTIONS, "--html", "month.html")
    page = (fleet.folder / "month.html").read_text(encoding="utf-8")

    assert answer.status == 0
    assert "month.html" in answer.err
    assert "shop &lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<rect") == 5 * 25  # five days are touched, of 24 hours and one bar
    assert "http" not in page
    assert "<script" not in page


def test_the_page_left_out_that_costs_are_unknown(fleet: CommandLine) -> None:
    unknown = "$0.00, unknown for 1 schedule"

    screen = fleet.run("simulate", *OPTIONS[:-2], "--html", "month.html").out
    page = (fleet.folder / "month.html").read_text(encoding="utf-8")

    assert f"cost          {unknown}" in screen
    assert f"<dd>{unknown}</dd>" in page


def test_json_has_what_the_screen_has(fleet: CommandLine) -> None:
    answer = fleet.run("simulate", *OPTIONS, "--json")

    found = json.loads(answer.out)
    night = found["schedules"][0]
    assert (night["schedule"], night["runs"], night["missed"], night["skipped"]) == ("triage/night", 4, 0, 0)
    assert (night["cost_usd"], night["profile"]) == (2.0, "given")
    assert (found["totals"]["runs"], found["totals"]["cost_usd"]) == (24, 2.0)
    assert found["from"] == "2026-03-27T11:00:00Z"


def test_the_same_seed_prints_the_same(fleet: CommandLine) -> None:
    one, other, third = (
        fleet.run("simulate", "--days", "20", "--seed", seed, "--json").out for seed in ("1", "1", "2")
    )

    assert one == other
    assert one != third


def test_files_with_errors_are_refused_instead_of_simulated_in_part(fleet: CommandLine) -> None:
    path = fleet.folder / "herdbeat.yaml"
    path.write_text(FLEET.replace("every: 6h", "every: 6x"), encoding="utf-8")

    answer = fleet.run("simulate")

    assert (answer.status, answer.out) == (2, "")
    assert '"6x"' in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--days", "0"), '--days cannot be "0"'),
        (("--days", "400"), '--days cannot be "400"'),
        (("--seed", "-1"), '--seed cannot be "-1"'),
        (("--seed", "1000000"), "Use a whole number from 0 to 999999."),
        (("--failures", "120%"), '--failures cannot be "120%"'),
        (("--failures", "nan"), '--failures cannot be "nan"'),
        (("--cost", "much"), '--cost cannot be "much"'),
        (("--cost", "-1"), '--cost cannot be "-1"'),
        (("--duration", "triage=5x"), '"5x"'),
        (("--duration", "nobody=5m"), '"nobody" names no schedule'),
        (("--usage-limit", "40"), '--usage-limit cannot be "40"'),
        (("--html", "no/such/folder.html"), "No such file or directory"),
    ],
)
def test_bad_values_are_refused_with_their_fix(fleet: CommandLine, options: tuple[str, ...], message: str) -> None:
    answer = fleet.run("simulate", *options)

    assert answer.status == 2
    assert message in answer.err
    assert len(answer.err.splitlines()) > 1  # how to fix it
    assert answer.out == ""
