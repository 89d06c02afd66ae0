import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.agent_store_contract import AgentStoreContract
from tests.support.outbox_contract import OutboxContract
from tests.support.planner_contract import PlannerContract
from tests.support.remote_run_contract import RemoteRunContract
from tests.support.rule_store_contract import RuleStoreContract
from tests.support.store_contract import FIVE_MINUTES, NOW, OpenedStore, StoreContract, build_beat, build_fleet
from tests.support.webhook_store_contract import WebhookStoreContract
from tests.support.work_claim_contract import WorkClaimContract

from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope, Reservation, SpendTotals
from herdbeat.domain.change import Change, ChangeKind
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.store.base import NewRun, TargetRow, Transaction
from herdbeat.store.reader import SqliteReader
from herdbeat.store.sqlite.connection import SqliteConnection
from herdbeat.store.sqlite.store import CHECKPOINT_CHANGES, SqliteSession, SqliteStore
from herdbeat.store.statements import RowCount, load_migrations


class TestSqliteStore(
    StoreContract,
    AgentStoreContract,
    WorkClaimContract,
    RuleStoreContract,
    OutboxContract,
    PlannerContract,
    RemoteRunContract,
    WebhookStoreContract,
):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
        store.open()
        yield store
        store.close()

    def test_a_node_that_was_killed_lived_at_least_until_its_last_claim(
        self, opened: OpenedStore, store: SqliteStore
    ) -> None:
        standing = opened.schedule()
        node = opened.store.write_now(lambda tx: tx.join_node("here", 1, "test", NOW))
        (beat_id,) = opened.store.write_now(lambda tx: tx.add_beats([build_beat(standing)]))
        assert beat_id is not None
        later = NOW + timedelta(seconds=6)

        opened.store.write_now(lambda tx: tx.add_runs([NewRun(beat_id, standing.id, 1)], node, later))

        assert opened.store.write_now(lambda tx: tx.node_get_last_seen()) == later
        with closing(SqliteReader(store.path)) as reader:
            assert [each.seen_at for each in reader.nodes(limit=1)] == [later]


DELETED_NEWEST = """
DELETE FROM run WHERE id = (SELECT max(id) FROM run);
DELETE FROM beat WHERE id = (SELECT max(id) FROM beat);
DELETE FROM change WHERE id = (SELECT max(id) FROM change);
"""


def test_no_id_is_given_again_after_the_newest_rows_were_deleted_and_the_ledger_reopened(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
    store.open()
    store.write_now(lambda tx: apply_fleet(tx, build_fleet(pace=FIVE_MINUTES), NOW))
    before = write_one_of_each(store, "first")
    store.close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.executescript(DELETED_NEWEST)

    store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
    store.open()
    after = write_one_of_each(store, "second")
    store.close()

    assert [new > old for old, new in zip(before, after, strict=True)] == [True, True, True]


def write_one_of_each(store: SqliteStore, dedup_id: str) -> tuple[int, int, int]:
    """Write a beat, its run and a change; return their ids."""
    standing = OpenedStore(store).schedule()

    def write(tx: Transaction) -> None:
        (beat_id,) = tx.add_beats([build_beat(standing, dedup_id)])
        assert beat_id is not None
        tx.add_runs([NewRun(beat_id, standing.id, 1)], 1, NOW)
        tx.add_changes([Change(at=NOW, who="human:you", what=ChangeKind.PAUSE, subject="worker/pace")])

    store.write_now(write)
    with closing(sqlite3.connect(store.path)) as connection:
        newest = [connection.execute(f"SELECT max(id) FROM {table}").fetchone() for table in ("beat", "run", "change")]
    return newest[0][0], newest[1][0], newest[2][0]


def test_the_log_is_moved_into_the_main_file_in_a_quiet_moment(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
    store.open()
    before = store.path.stat().st_size

    store.write_now(
        lambda tx: tx.add_targets([TargetRow(f"t{n}", "command", "{}", "", 1) for n in range(CHECKPOINT_CHANGES)])
    )
    store.write_now(lambda tx: tx.targets())  # the writer has tidied up before it takes another order

    assert store.path.stat().st_size > before
    store.close()


def test_a_checkpoint_that_a_reader_cuts_short_is_not_taken_for_another_ledger(tmp_path: Path) -> None:
    """The header then counts pages that are only in the log. A node once started nothing more until its restart."""
    path = tmp_path / "herdbeat.db"
    session = SqliteSession(path)
    session.open()
    try:
        write = sqlite3.connect(path, isolation_level=None)
        session.on_idle()  # signs the file
        write.execute("CREATE TABLE grown (text)")
        write.executemany("INSERT INTO grown VALUES (?)", [("x" * 1_000,)] * 100)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM grown").fetchone()
            write.execute("UPDATE grown SET text = 'y' || text")
            write.execute("PRAGMA wal_checkpoint(PASSIVE)")

        pages = int.from_bytes(path.read_bytes()[28:32], "big")
        assert path.stat().st_size < pages * 4_096  # what the reader has caused
        session.require_same_file()
        write.close()
    finally:
        session.close()


def test_another_program_that_empties_the_journal_by_a_checkpoint_does_not_truncate_it(tmp_path: Path) -> None:
    path = tmp_path / "herdbeat.db"
    session = SqliteSession(path)
    session.open()
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("CREATE TABLE other (text)")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        assert path.with_name("herdbeat.db-wal").stat().st_size == 0
        session.begin()
        session.commit()  # raises if it takes the journal for a damaged one
    finally:
        session.close()


def test_a_ledger_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state" / "ledger.db")
    store.open()
    store.write_now(lambda tx: tx.plan_upsert_many(["{}"]))

    files = [store.path.parent, *store.path.parent.iterdir()]
    assert [file.name for file in files if file.stat().st_mode & 0o077] == []
    store.close()


def test_spend_from_before_shared_budgets_is_still_known(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as old:
        for number, text in load_migrations()[:6]:
            old.executescript(f"{text} PRAGMA user_version = {number};")
        old.execute("INSERT INTO spend VALUES (3, '2026-03-02', 2, 10, 0.5)")
        old.execute("INSERT INTO reservation VALUES (9, 3, '2026-03-02', 5, 0.25)")
        old.commit()
    store = SqliteStore(path)

    store.open()

    account = BudgetDay(BudgetOwner(BudgetScope.SCHEDULE, 3), "2026-03-02")
    assert store.write_now(lambda tx: tx.budget_get_usage([account])) == {account: SpendTotals(2, 10, 0.5)}
    assert store.write_now(lambda tx: tx.reservations([9])) == [Reservation(9, account, 5, 0.25)]
    store.close()


def test_retention_read_every_schedule_although_no_planned_pause_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 100,000 schedules beats were 40 ms late meanwhile, again for every 200 rows that were removed."""
    executed: list[str] = []
    execute = SqliteConnection.execute

    def record(connection: SqliteConnection, name: str, **values: object) -> RowCount:
        executed.append(name)
        return execute(connection, name, **values)

    monkeypatch.setattr(SqliteConnection, "execute", record)
    store = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
    store.open()
    with closing(store):
        store.write_now(lambda tx: tx.pause_drop(NOW, NOW - timedelta(days=1), 200))

    assert "close_windows" in executed
    assert "count_closed_windows" not in executed
