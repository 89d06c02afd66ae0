"""Skip, cancel, retry and backfill at the terminal, while nothing runs."""

from datetime import timedelta

import pytest
from tests.support.fleet_history import create_fleet_history

from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd

FLEET = """\
version: 1
fleet: { name: my-fleet }
timezone: Europe/Berlin
callables:
  - { name: report, call: "fleet:report", cron: "0 * * * *" }
  - { name: api-health, call: "fleet:api", every: 5m }
"""
HOUR = timedelta(hours=1)


@pytest.fixture
async def fleet(cli: CommandLine) -> CommandLine:
    """A report every hour, an interval whose first run failed, and one that waits for the slot of another."""
    await create_fleet_history(cli, FLEET, _schedules, lasted=HOUR)
    return cli


def _schedules(herd: SimulatedHerd) -> None:
    herd.schedule("report", cron="0 * * * *", zone="Europe/Berlin", tags=("ops",))
    herd.schedule("api-health", every="1d", runner=ScriptedRunner(fails=1), tags=("ops",))
    herd.schedule("worker/busy", every="1d", runner=ScriptedRunner(holds=True))
    herd.schedule("worker/waits", cron="30 13 * * *", zone="Europe/Berlin")
    herd.schedule("launch", at="2026-03-26T12:30:00Z")


def fates(cli: CommandLine, target: str) -> list[tuple[str, str, str]]:
    reader = SqliteReader(cli.folder / ".herdbeat" / "herdbeat.db")
    try:
        found = reader.beats(Filter(target=target, limit=100))
        return [(beat.outcome.value, beat.reason, beat.dedup_id) for beat in reversed(found)]
    finally:
        reader.close()


# ── skip ──


def test_a_skip_prints_the_beat_and_its_undo(fleet: CommandLine) -> None:
    answer = fleet.run("skip", "report", "--reason", "holiday")

    assert answer.out == "Skipping report: the next beat, 15:00 CET.   undo: herdbeat skip --clear report\n"
    assert answer.status == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("skip", "report", "--count", "3"), "Skipping report: the next 3 beats, 15:00 CET to 17:00 CET."),
        (("skip", "report", "-n", "30"), "Skipping report: the next 30 beats, starting 15:00 CET."),
        (("skip", "api-health"), "Skipping api-health: the next beat, Sat 28 Mar 13:04 CET."),
        (("skip", "--tag", "ops"), "Skipping 2 schedules: the next beat.   undo: herdbeat skip --clear --tag ops"),
        (("skip", "report", "--clear"), "· report  no beats to skip; no change"),
    ],
)
def test_the_skipped_beat_is_described_as_exactly_as_it_is_known(
    fleet: CommandLine, words: tuple[str, ...], expected: str
) -> None:
    assert fleet.run(*words).out.startswith(expected)


def test_a_repeated_skip_is_reported_and_an_undone_skip_runs_again(fleet: CommandLine) -> None:
    fleet.run("skip", "report")

    again, back = fleet.run("skip", "report"), fleet.run("skip", "--clear", "report")

    assert again.out == "· report  already skips its next beat; no change\n"
    assert back.out == "Skipping report: cancelled. Next run 15:00 CET.   undo: herdbeat skip --count 1 report\n"


def test_a_skip_is_shown_by_the_views(fleet: CommandLine) -> None:
    fleet.run("skip", "report", "--reason", "holiday")

    explained, following = fleet.run("explain", "report"), fleet.run("next", "report", "-n", "2")
    changes = fleet.run("changes", "report")

    assert 'the next beat is skipped, requested by human:you "holiday"' in explained.out
    assert ["skipped: by_request" in line for line in following.lines()[1:]] == [True, False]
    assert "skips 0 → 1" in changes.out


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (("skip", "launch"), "the schedule has no next beat", 1),
        (("skip", "report", "--count", "0"), '--count cannot be "0"', 2),
        (("skip", "report", "--count", "5000"), "5000 beats cannot be skipped", 2),
        (("skip", "report", "--count", "2", "--clear"), "--clear and --count cannot be combined", 2),
        (("skip",), "No schedule is selected", 2),
    ],
)
def test_what_cannot_be_skipped_is_refused(
    fleet: CommandLine, words: tuple[str, ...], message: str, status: int
) -> None:
    answer = fleet.run(*words)

    assert message in answer.out + answer.err
    assert answer.status == status


# ── cancel ──


def test_cancel_cancels_pending_beats(fleet: CommandLine) -> None:
    answer = fleet.run("cancel", "worker/waits", "--reason", "not today")

    assert answer.out == "– worker/waits  1 queued beat cancelled (skipped: by_request)\n"
    assert [fate[:2] for fate in fates(fleet, "worker") if "cron" in fate[2]] == [("skipped", "by_request")]
    assert "not today" in fleet.run("changes", "worker/waits").out


def test_cancelling_an_idle_schedule_changes_nothing(fleet: CommandLine) -> None:
    answer = fleet.run("cancel", "report")

    assert (answer.out, answer.err) == ("", "No active runs or queued beats. No change.\n")
    assert answer.status == 0


def test_a_dry_run_only_shows(fleet: CommandLine) -> None:
    shown = fleet.run("cancel", "worker", "--dry-run", "--json").json()

    assert [(each["schedule"], each["waiting"]) for each in shown["items"]] == [
        ("worker/busy", "0"),
        ("worker/waits", "1"),
    ]
    assert [fate[0] for fate in fates(fleet, "worker") if "cron" in fate[2]] == ["pending"]


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (("cancel", "0001"), "Run 0001 has already ended: ", 1),
        (("cancel", "reprt"), 'There is no target, schedule or run "reprt"; did you mean "report"?', 3),
        (("cancel", "--all"), "Not an interactive terminal.", 2),
        (("cancel",), "No schedule is selected", 2),
    ],
)
def test_what_cannot_be_cancelled_is_refused(
    fleet: CommandLine, words: tuple[str, ...], message: str, status: int
) -> None:
    answer = fleet.run(*words)

    assert message in answer.err
    assert answer.status == status


# ── retry ──


def test_a_retry_of_a_failed_run_is_recorded(fleet: CommandLine) -> None:
    answer = fleet.run("retry", "api-health")

    assert answer.out.startswith("◷ api-health  attempt 2 at beat ")
    assert "it starts when the fleet runs: herdbeat up   undo: herdbeat cancel api-health" in answer.out
    assert [fate[:2] for fate in fates(fleet, "api-health")] == [("pending", "retry")]


def test_a_successful_run_is_retried_only_with_force(fleet: CommandLine) -> None:
    refused, insisted = fleet.run("retry", "report"), fleet.run("retry", "report", "--force", "--json")

    assert refused.status == 1
    assert "was not retried: it succeeded.   Retry anyway with --force" in refused.out
    assert insisted.json()["items"][0]["attempt"] == 2


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (("retry", "worker/waits"), '"worker/waits" has never run.', 3),
        (("retry", "report", "api-health", "--wait"), "--wait can follow only one run.", 2),
        (("retry", "api-health", "--wait"), "The fleet is not running", 1),
        (("retry",), "SELECTOR is missing", 2),
    ],
)
def test_a_run_that_cannot_be_retried_is_refused(
    fleet: CommandLine, words: tuple[str, ...], message: str, status: int
) -> None:
    answer = fleet.run(*words)

    assert message in answer.err
    assert answer.status == status


def test_a_dry_run_of_a_retry_changes_nothing(fleet: CommandLine) -> None:
    shown = fleet.run("retry", "api-health", "--dry-run")

    assert shown.lines()[1].split() == ["api-health", "0001", "failed", "2"]
    assert [fate[0] for fate in fates(fleet, "api-health")] == ["ran"]


# ── backfill ──


def test_a_backfill_records_beats_of_a_past_window(fleet: CommandLine) -> None:
    answer = fleet.run("backfill", "report", "--from", "today 09:00", "--until", "today 12:00", "--reason", "lost data")

    assert answer.out.startswith("◷ report  backfill #1: 3 beats, 09:00:00 to 11:00:00   cancel queued beats: ")
    assert "\nThey start at the next: herdbeat up." in answer.err
    assert [fate[2] for fate in fates(fleet, "report")][1:] == [
        f"backfill:2026-03-26T{hour:02}:00:00Z#1" for hour in (8, 9, 10)
    ]


def test_a_backfill_can_be_previewed_and_cancelled(fleet: CommandLine) -> None:
    planned = fleet.run("backfill", "report", "--from", "3h", "--dry-run", "--json").json()
    before = len(fates(fleet, "report"))
    fleet.run("backfill", "report", "--from", "3h")

    called_off = fleet.run("cancel", "report")

    assert planned["instants"] == [f"2026-03-26T{hour}:00:00Z" for hour in (11, 12, 13)]
    assert before == 1
    assert called_off.out == "– report  3 queued beats cancelled (skipped: by_request)\n"


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (("--from", "30d"), "720 instants of report are in this time range; --max is 100.", 1),
        (
            ("--from", "30d", "--max", "1000"),
            "24 Feb 14:04:00 CET to Thu 26 Mar 14:04:00 CET now. Not an interactive terminal.",
            2,
        ),
        (("--from", "5000d", "--max", "10000"), "the limit is 10000", 1),
        (("--from", "14:01", "--until", "14:02"), "report has no instants in this time range.", 3),
        (("--from", "1h", "--until", "2h ago"), "The time range is empty", 2),
        (("--until", "2h ago"), "--from is missing", 2),
        (("--from", "1h", "--max", "many"), '--max cannot be "many"', 2),
    ],
)
def test_a_window_that_cannot_be_backfilled_is_refused(
    fleet: CommandLine, words: tuple[str, ...], message: str, status: int
) -> None:
    answer = fleet.run("backfill", "report", *words)

    assert message in answer.err
    assert answer.status == status
    assert len(fates(fleet, "report")) == 1


def test_an_interval_cannot_be_backfilled(fleet: CommandLine) -> None:
    answer = fleet.run("backfill", "api-health", "--from", "1h")

    assert "An interval schedule has no past instants" in answer.err
    assert answer.status == 1


def test_yes_backfills_many_instants_without_a_confirmation(fleet: CommandLine) -> None:
    answer = fleet.run("backfill", "report", "--from", "30h", "--yes", "--json")

    assert (answer.status, answer.json()["count"]) == (0, 30)


def test_a_backfill_does_not_hide_the_first_outcome_of_an_instant(fleet: CommandLine) -> None:
    fleet.run("backfill", "report", "--from", "14:00", "--until", "14:01")

    explained = fleet.run("explain", "report", "--at", "14:00")

    assert "report was due Thu 26 Mar 14:00:00 CET and ran." in explained.out
    assert [fate[0] for fate in fates(fleet, "report")] == ["ran", "pending"]


def test_backfilled_beats_are_not_late(fleet: CommandLine) -> None:
    before = fleet.run("status").out
    fleet.run("backfill", "report", "--from", "5h")

    after = fleet.run("status").out

    assert [line for line in after.splitlines() if "report" in line] == [
        line for line in before.splitlines() if "report" in line
    ]
