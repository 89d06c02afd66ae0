import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.store.postgres.test_reader import IDENTITY, LATER, QUESTIONS, write_sample_history
from tests.support.store_contract import OpenedStore, build_beat, build_fleet

from herdbeat.domain.selection import Selection
from herdbeat.errors import Conflict
from herdbeat.scheduler.membership import register_node
from herdbeat.scheduler.planned_pauses import plan_pause
from herdbeat.service.maintenance.ledger import migrate_to_postgres
from herdbeat.service.queries.nodes import NodeState, resolve_node_state
from herdbeat.store.location import PostgresLocation, create_store, open_reader
from herdbeat.store.postgres.import_sqlite import IMPORTED_TABLES, NOT_IMPORTED_TABLES


def filled(path: Path) -> Path:
    store = create_store(path)
    store.open()
    write_sample_history(store)
    store.close()
    return path


def test_a_reader_of_the_copy_gives_the_answers_of_the_file(tmp_path: Path, database: PostgresLocation) -> None:
    path = filled(tmp_path / "herdbeat.db")
    told: list[tuple[int, int]] = []

    copied = migrate_to_postgres(path, database, build_fleet(), lambda done, total: told.append((done, total)))

    file, there = open_reader(path), open_reader(database)
    for name, question in QUESTIONS.items():
        assert question(there) == question(file), name
    assert copied["schedule"] == 2
    assert told[-1][0] == told[-1][1] == sum(copied.values())
    file.close()
    there.close()


def test_no_table_of_the_ledger_is_forgotten(tmp_path: Path) -> None:
    with closing(sqlite3.connect(filled(tmp_path / "herdbeat.db"))) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    assert {name for name in tables if not name.startswith("sqlite_")} == NOT_IMPORTED_TABLES | set(IMPORTED_TABLES)


def test_planned_pauses_and_tokens_are_copied(tmp_path: Path, database: PostgresLocation) -> None:
    path = filled(tmp_path / "herdbeat.db")
    store = create_store(path)
    store.open()
    until = LATER + timedelta(hours=1)
    everything = Selection(everything=True)
    store.write_now(
        lambda tx: plan_pause(tx, LATER, everything, from_at=LATER, until=until, by="human:you", reason="upgrade")
    )
    store.write_now(lambda tx: tx.add_token("ci", "digest", "read", by="human:you", now=LATER, expires_at=None))
    store.close()

    migrate_to_postgres(path, database, build_fleet())

    copy = create_store(database)
    copy.open()
    (planned,) = copy.write_now(lambda tx: tx.planned_pauses(LATER))
    reader = open_reader(database)
    assert (planned.reason, planned.schedules) == ("upgrade", 2)
    assert [token.name for token in reader.tokens(5)] == ["ci"]
    reader.close()
    copy.close()


def test_a_copied_fleet_continues_with_new_ids_and_knows_the_gap_without_a_node(
    tmp_path: Path, database: PostgresLocation
) -> None:
    migrate_to_postgres(filled(tmp_path / "herdbeat.db"), database, build_fleet())
    store = create_store(database)
    store.open()

    joined = store.write_now(lambda tx: register_node(tx, LATER, IDENTITY))

    assert joined.node_id == 2
    assert [gap.until for gap in joined.gaps] == [LATER]
    assert store.write_now(lambda tx: tx.fleet_name()) == "contract"
    store.close()


def test_a_copied_fleet_gives_no_id_of_a_deleted_row_again(tmp_path: Path, database: PostgresLocation) -> None:
    path = filled(tmp_path / "herdbeat.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO meta (key, value) VALUES ('beat_id_floor', '5000')")
        connection.commit()
    migrate_to_postgres(path, database, build_fleet())
    store = create_store(database)
    store.open()

    standing = OpenedStore(store).schedule()
    (beat_id,) = store.write_now(lambda tx: tx.add_beats([build_beat(standing, "interval:new")]))
    store.close()
    assert beat_id is not None
    assert beat_id > 5000


def test_a_database_with_a_fleet_in_it_is_not_written_over(tmp_path: Path, database: PostgresLocation) -> None:
    path = filled(tmp_path / "herdbeat.db")
    migrate_to_postgres(path, database, build_fleet())

    with pytest.raises(Conflict, match="already contains a fleet"):
        migrate_to_postgres(path, database, build_fleet())


def test_a_node_that_had_left_its_file_is_not_called_dead(tmp_path: Path, database: PostgresLocation) -> None:
    path = filled(tmp_path / "herdbeat.db")
    file = create_store(path)
    file.open()
    left, died = (file.write_now(lambda tx: tx.join_node("here", 1, "test", LATER)) for _ in range(2))
    file.write_now(lambda tx: tx.leave_node(left, LATER))
    file.close()

    migrate_to_postgres(path, database, build_fleet())

    reader = open_reader(database)
    standings = {each.id: resolve_node_state(each, LATER, is_holder=False) for each in reader.nodes(10)}
    reader.close()
    assert standings[left] is NodeState.LEFT
    assert standings[died] is NodeState.DEAD
