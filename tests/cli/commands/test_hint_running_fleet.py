"""One-shot hints on a running fleet, as real processes: the target counts what has started."""

from pathlib import Path

from tests.support.running_fleet import RunningFleet

FLEET = """\
version: 1
timezone: UTC
commands:
  - name: ticker
    command: [sh, -c, 'echo "$HERDBEAT_BEAT" >> starts']
    cron: "* * * * * *"
    overlap: allow
    instances: { max_concurrent: 10 }
"""


def test_a_one_shot_in_a_second_that_has_a_beat_starts(tmp_path: Path) -> None:
    """It was used up without a beat, a run or a reason."""
    fleet = RunningFleet(tmp_path)
    fleet.write(FLEET)
    with fleet.up() as feed:
        for number in range(3):
            feed.until("run_finished")
            # A moment that has passed is due now, in a second whose beat has started.
            assert fleet.call("hint", "ticker", "--at", "2026-01-01T00:00:00Z", f"--reason={number}").returncode == 0
            started = feed.until("run_started", source="ai-oneshot")
            feed.until("run_finished", run_id=started["run_id"])

    starts = (tmp_path / "starts").read_text(encoding="utf-8").split()
    between_seconds = [start for start in starts if "." in start]
    assert len(set(between_seconds)) == len(between_seconds) == 3
