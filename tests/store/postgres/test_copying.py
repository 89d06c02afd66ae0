from pathlib import Path

import pytest
from tests.store.contract import a_fleet
from tests.store.postgres.test_reader import IDENTITY, LATER, QUESTIONS, tell

from herdbeat.errors import Conflict
from herdbeat.scheduler.life import join
from herdbeat.service.members import Standing, standing_of
from herdbeat.service.moving import move
from herdbeat.store.opening import look_at, store_at
from herdbeat.store.places import PostgresPlace


def filled(path: Path) -> Path:
    store = store_at(path)
    store.open()
    tell(store)
    store.close()
    return path


def test_whoever_reads_the_copy_hears_what_the_file_says(tmp_path: Path, database: PostgresPlace) -> None:
    path = filled(tmp_path / "herdbeat.db")
    told: list[tuple[int, int]] = []

    copied = move(path, database, a_fleet(), lambda done, total: told.append((done, total)))

    file, there = look_at(path), look_at(database)
    for name, question in QUESTIONS.items():
        assert question(there) == question(file), name
    assert copied["schedule"] == 2
    assert told[-1][0] == told[-1][1] == sum(copied.values())
    file.close()
    there.close()


def test_a_copied_fleet_goes_on_with_new_numbers_and_knows_when_nobody_was_there(
    tmp_path: Path, database: PostgresPlace
) -> None:
    move(filled(tmp_path / "herdbeat.db"), database, a_fleet())
    store = store_at(database)
    store.open()

    joined = store.write_now(lambda tx: join(tx, LATER, IDENTITY))

    assert joined.node_id == 2
    assert [gap.until for gap in joined.gaps] == [LATER]
    assert store.write_now(lambda tx: tx.fleet_name()) == "contract"
    store.close()


def test_a_database_with_a_fleet_in_it_is_not_written_over(tmp_path: Path, database: PostgresPlace) -> None:
    path = filled(tmp_path / "herdbeat.db")
    move(path, database, a_fleet())

    with pytest.raises(Conflict, match="holds a fleet already"):
        move(path, database, a_fleet())


def test_a_node_that_had_left_its_file_is_not_called_dead(tmp_path: Path, database: PostgresPlace) -> None:
    path = filled(tmp_path / "herdbeat.db")
    file = store_at(path)
    file.open()
    left, died = (file.write_now(lambda tx: tx.join_node("here", 1, "test", LATER)) for _ in range(2))
    file.write_now(lambda tx: tx.leave_node(left, LATER))
    file.close()

    move(path, database, a_fleet())

    reader = look_at(database)
    standings = {each.id: standing_of(each, LATER, is_served=False) for each in reader.nodes(10)}
    reader.close()
    assert standings[left] is Standing.LEFT
    assert standings[died] is Standing.DEAD
