"""A fleet with schedules in every state: running, late, failing, paused, disabled, hinted, done; and a night without a
node.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.outage_fleet import ZONE, copy_ledger, create_folder

from herdbeat.domain.hint import Hint
from herdbeat.runners.run_log import LogStream, RunLog
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

EVENING = datetime(2026, 3, 25, 21, 0, tzinfo=UTC)
NOON = datetime(2026, 3, 26, 12, 30, tzinfo=UTC)
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

FLEET_YAML = """\
version: 1
fleet: { name: my-fleet }
timezone: Europe/Berlin
callables:
  - { name: queue-depth, call: "fleet:depth", every: 5m }
"""


async def write_mixed_state_fleet(folder: Path) -> None:
    """Write a ledger with a node in the evening, none at night, one from noon on; then run commands."""
    (folder / "herdbeat.yaml").write_text(FLEET_YAML, encoding="utf-8")
    made, kept = folder / "made", folder / ".herdbeat"
    async with open_herd(create_folder(made), EVENING) as herd:
        _add_schedules(herd, ScriptedRunner(), fails=0)
        await herd.advance(HOUR)
    async with open_herd(made, NOON) as herd:
        _add_schedules(herd, ScriptedRunner(holds=True), fails=99)
        await herd.advance(10 * MINUTE)
        _apply_changes(herd)
        await herd.advance(NOW - herd.now)
        copy_ledger(made, kept)  # copied while a run is active, so that the ledger under test has one
    _write_logs(kept)


def _add_schedules(herd: SimulatedHerd, busy: ScriptedRunner, fails: int) -> None:
    herd.schedule("queue-depth", every="5m", zone=ZONE, tags=("vendor-x",))
    herd.schedule("triage/check-issues", every="30m", zone=ZONE, group="issues")
    herd.schedule("triage/standup", cron="0 9 * * 1-5", zone=ZONE, group="issues")
    herd.schedule("api-health", every="5m", zone=ZONE, runner=ScriptedRunner(fails=fails), tags=("vendor-x",))
    herd.schedule("marketing/scan", every="1h", zone=ZONE, runner=busy)
    herd.schedule("marketing/report", cron="45 13 * * *", zone=ZONE)
    herd.schedule("marketing/weekly", cron="0 10 * * 1", zone=ZONE)
    herd.schedule("marketing/old-promo", every="10m", zone=ZONE)
    herd.schedule("launch", at="2026-03-25T21:30:00Z", zone=ZONE)


def _apply_changes(herd: SimulatedHerd) -> None:
    pace = Hint(
        origin="human:you",
        every=timedelta(minutes=1),
        reason="watching the deploy",
        expires_at=NOW + HOUR,
        created_at=herd.now,
    )
    herd.hint("queue-depth", pace)
    herd.pause("marketing/weekly", until=NOW + 2 * HOUR)
    herd.disable("marketing/old-promo")


def _write_logs(state_dir: Path) -> None:
    """Write the logs that two runs would have printed."""
    clock = FakeClock(EVENING)
    for run_id, words in ((1, ["depth 12", "depth 14"]), (2, ["3 issues", "1 labelled"])):
        log = RunLog(state_dir, run_id, clock, 10_000)
        for word in words:
            log.write(LogStream.OUT, f"{word}\n")
        log.write(LogStream.ERR, "a warning\twith a tab\n")
        log.close()
