"""A fleet with a history: a night without a node, a schedule that fails, one without capacity, one manual run."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.scheduler.manual import enqueue_manual
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

EVENING = datetime(2026, 3, 25, 21, 0, tzinfo=UTC)
NOON = datetime(2026, 3, 26, 12, 30, tzinfo=UTC)
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
ZONE = "Europe/Berlin"
HOUR = timedelta(hours=1)

FLEET_YAML = """\
version: 1
fleet: { name: my-fleet }
timezone: Europe/Berlin
callables:
  - { name: triage, call: "fleet:triage", every: 30m }
"""


async def write_outage_fleet(folder: Path) -> None:
    """Write the fleet file and the ledger of a fleet that had a node in the evening, none at night, and one from noon
    on.
    """
    (folder / "herdbeat.yaml").write_text(FLEET_YAML, encoding="utf-8")
    made, kept = folder / "made", folder / ".herdbeat"
    async with open_herd(create_folder(made), EVENING) as herd:
        _add_schedules(herd, ScriptedRunner(), fails=0)
        await herd.advance(HOUR)
    async with open_herd(made, NOON) as herd:
        _add_schedules(herd, ScriptedRunner(holds=True), fails=99)
        await herd.advance(timedelta(minutes=20))
        number = herd.snapshot("triage/check-issues").id
        herd.store.write_now(lambda tx: enqueue_manual(tx, herd.now, number, origin="human:you", event_id="one"))
        await herd.advance(NOW - herd.now)
        # Copied while a run is active, so that the ledger under test has one.
        copy_ledger(made, kept)


def create_folder(path: Path) -> Path:
    path.mkdir()
    return path


def copy_ledger(made: Path, kept: Path) -> None:
    """Copy the ledger as it is now, as if a process with a known pid had written it."""
    _copy_database(made / "herdbeat.db", create_folder(kept) / "herdbeat.db")


def _copy_database(source: Path, copy: Path) -> None:
    with closing(sqlite3.connect(source)) as there, closing(sqlite3.connect(copy)) as here:
        there.backup(here)
        here.execute("UPDATE node SET pid = 4121")
        here.commit()


def _add_schedules(herd: SimulatedHerd, busy: ScriptedRunner, fails: int) -> None:
    herd.schedule("triage/check-issues", every="30m", zone=ZONE)
    herd.schedule("triage/standup", cron="0 9 * * 1-5", zone=ZONE)
    herd.schedule("api-health", every="5m", zone=ZONE, runner=ScriptedRunner(fails=fails))
    herd.schedule("marketing/scan", every="1h", zone=ZONE, runner=busy)
    herd.schedule("marketing/report", cron="45 13 * * *", zone=ZONE)
    herd.schedule("launch", at="2026-03-25T21:30:00Z", zone=ZONE)
