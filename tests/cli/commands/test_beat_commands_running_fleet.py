"""Skip, cancel, retry and backfill of a fleet at work, as real processes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands.test_up import UpFleet, read_until
from tests.support.running_fleet import RunningFleet

FLEET = """\
version: 1
fleet: { name: my-fleet }
timezone: UTC
catchup_rate: 1000
commands:
  - { name: broken, command: ["false"], type: manual }
  - { name: deaf, command: [sh, -c, "trap '' TERM; echo ready; while :; do sleep 0.05; done"], type: manual }
  - { name: yearly, command: [sh, -c, 'echo "$HERDBEAT_BEAT"'], cron: "0 0 1 1 *" }
"""


@pytest.fixture
def fleet(tmp_path: Path) -> UpFleet:
    made = UpFleet(tmp_path)
    (tmp_path / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
    return made


def items(answer: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer["items"]
    return found


def test_cancel_with_force_kills_a_run_at_once_and_records_the_reason(fleet: UpFleet) -> None:
    with fleet.up() as process:
        run = fleet.answer("run", "deaf")["run"]
        cancelled = items(fleet.answer("cancel", str(run), "--force", "--reason", "it hangs"))
        event = read_until(process, "run_finished")
        again = fleet.call("cancel", str(run))

    assert [(each["runs"], each["statuses"]) for each in cancelled] == [([run], ["cancelled"])]
    assert event["status"] == "cancelled"
    assert str(event["error"]).endswith(": it hangs")
    assert f"Run {run} has already ended: cancelled" in again.stderr


def test_cancelling_a_target_stops_its_run_and_cancels_pending_beats(fleet: UpFleet) -> None:
    with fleet.up() as process:
        fleet.call("run", "deaf")
        fleet.call("run", "deaf", "--queue")
        (cancelled,) = items(fleet.answer("cancel", "deaf", "--force"))
        event = read_until(process, "beat_settled")
        beats = items(fleet.answer("beats", "deaf"))

    assert (len(cancelled["runs"]), cancelled["called_off"]) == (1, 1)
    assert (event["schedule"], event["outcome"], event["reason"]) == ("deaf", "skipped", "by_request")
    assert [(each["outcome"], each["reason"]) for each in beats] == [("skipped", "by_request"), ("ran", "")]


def test_a_retry_is_followed_to_its_end(fleet: UpFleet) -> None:
    with fleet.up():
        fleet.call("run", "broken", "--wait")
        retried = fleet.call("retry", "broken", "--wait")
        runs = items(fleet.answer("runs", "broken"))

    assert retried.returncode == 5
    assert "attempt 2 at beat" in retried.stdout
    assert [(each["source"], each["attempt"]) for each in runs] == [("retry", 2), ("manual", 1)]
    assert len({each["beat"] for each in runs}) == 1


def test_a_backfill_runs_past_instants_and_each_run_gets_its_own(fleet: UpFleet) -> None:
    with fleet.up() as process:
        filled = fleet.answer("backfill", "yearly", "--from", "2020-01-01", "--until", "2023-01-01")
        for _ in range(3):
            read_until(process, "run_finished")
        beats = items(fleet.answer("beats", "yearly"))

    assert (filled["count"], filled["served"]) == (3, True)
    assert [(each["due_at"], each["outcome"], each["source"]) for each in reversed(beats)] == [
        (f"{year}-01-01T00:00:00Z", "ran", "backfill") for year in (2020, 2021, 2022)
    ]


def test_a_skip_reaches_a_running_fleet(fleet: UpFleet) -> None:
    with fleet.up():
        skipped = fleet.call("skip", "yearly")
        explained = fleet.call("explain", "yearly")

    assert skipped.stdout.startswith("Skipping yearly: the next beat, ")
    assert skipped.stderr == ""
    assert "the next beat is skipped, requested by" in " ".join(explained.stdout.split())


def test_a_schedule_whose_work_source_fails_starts_nothing(tmp_path: Path) -> None:
    fleet = RunningFleet(tmp_path)
    fleet.write(
        "agents: [{ name: a, runtime: command, command: [touch, started], every: 1h,"
        " work_source: { type: directory, path: ./todo } }]\n"
    )

    with fleet.up() as feed:
        by_clock = feed.until("run_finished")
        fleet.call("run", "a")
        by_hand = feed.until("run_finished")
        beats = json.loads(fleet.call("beats", "--json").stdout)["items"]

    assert [each["error"] for each in (by_clock, by_hand)] == ["work_source_error"] * 2
    assert [(each["outcome"], each["reason"]) for each in beats] == [("skipped", "work_source_error")] * 2
    assert not (tmp_path / "started").exists()
