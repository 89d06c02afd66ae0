"""Is the ledger well? Asked of sound, odd and ruined files, it always answers."""

import random
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.service.maintenance.ledger import inspect_ledger
from herdbeat.testing.herd import open_herd

TEN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


async def ledger(folder: Path, *damage: str) -> Path:
    async with open_herd(folder, TEN) as herd:
        for number in range(30):
            herd.schedule(f"t{number}", every="5m")
        await herd.tick()
    connection = sqlite3.connect(folder / "herdbeat.db", isolation_level=None)
    for statement in damage:
        connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return folder / "herdbeat.db"


async def test_a_sound_ledger_has_no_findings(tmp_path: Path) -> None:
    path = await ledger(tmp_path)

    assert inspect_ledger(path, TEN).is_healthy


async def test_what_the_scan_would_repair_is_listed_and_left(tmp_path: Path) -> None:
    path = await ledger(tmp_path, "UPDATE target SET running = 3 WHERE name = 't7'")

    first, second = inspect_ledger(path, TEN), inspect_ledger(path, TEN)

    assert [each.subject for each in first.findings] == ["t7"]
    assert first == second
    assert not first.is_healthy


async def test_a_row_that_points_at_nothing_is_damage(tmp_path: Path) -> None:
    path = await ledger(tmp_path, "DELETE FROM beat WHERE id = 5")

    (line,) = inspect_ledger(path, TEN).damage

    assert "of run points at a missing row of beat" in line


async def test_a_quarantined_schedule_is_listed_with_its_reason(tmp_path: Path) -> None:
    path = await ledger(tmp_path, "UPDATE schedule SET quarantine = 'no shadow at noon' WHERE id = 3")

    found = inspect_ledger(path, TEN)

    assert [reason for _, reason in found.quarantined] == ["no shadow at noon"]


@pytest.mark.parametrize("seed", range(25))
async def test_a_file_with_random_damage_never_crashes_it(tmp_path: Path, seed: int) -> None:
    path = await ledger(tmp_path)
    dice = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice([1, 10, 200])):
        place = dice.randrange(len(data))
        data[place] = dice.randrange(256)
    path.write_bytes(data[: dice.choice([len(data), len(data) // 2, 100])])

    found = inspect_ledger(path, TEN)

    assert isinstance(found.is_healthy, bool)


async def test_no_database_at_all_is_damage(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.db").write_bytes(b"garbage" * 1_000)

    assert inspect_ledger(tmp_path / "herdbeat.db", TEN).damage == (
        f"{tmp_path / 'herdbeat.db'}: file is not a database",
    )
