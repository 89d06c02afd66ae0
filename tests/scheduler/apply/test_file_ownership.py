"""Whose schedule it is: what the files may remove, what they may not, and what is no change at all."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.schedule_builders import file_location, make_fleet, make_schedule, make_target

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import CreatedVia
from herdbeat.scheduler.apply.apply import ApplyResult, apply_fleet
from herdbeat.store.sqlite.store import SqliteStore

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "ledger.db")
    store.open()
    yield store
    store.close()


def applied(store: SqliteStore, fleet: Fleet, *, is_whole: bool = True) -> ApplyResult:
    return store.write_now(lambda tx: apply_fleet(tx, fleet, LATER, is_whole=is_whole))


def origins(store: SqliteStore) -> dict[str, str]:
    """Of every schedule that is there, by target and name."""

    def read(tx):  # type: ignore[no-untyped-def]
        names = {number: name for name, (number, _) in tx.targets().items()}
        return {
            f"{names[target]}/{name}": row.origin
            for (target, name), (_, row) in tx.schedule_list_by_target(names).items()
        }

    found: dict[str, str] = store.write_now(read)
    return found


def test_what_was_made_by_hand_stays_when_the_files_are_applied(store: SqliteStore) -> None:
    applied(store, make_fleet(make_schedule("a")))
    applied(
        store,
        make_fleet(make_schedule("b", origin=CreatedVia.CLI), targets=(make_target("b", origin=CreatedVia.CLI),)),
        is_whole=False,
    )

    done = applied(store, make_fleet(make_schedule("a")))

    assert done == ApplyResult()
    assert origins(store) == {"a/default": "herdbeat.yaml:1:3", "b/default": "cli"}


def test_a_target_that_leaves_the_files_stays_as_long_as_a_schedule_by_hand_needs_it(store: SqliteStore) -> None:
    applied(store, make_fleet(make_schedule("a"), make_schedule("b")))
    applied(store, make_fleet(make_schedule("b/extra", origin=CreatedVia.CLI), targets=()), is_whole=False)

    done = applied(store, make_fleet(make_schedule("a")))

    assert done.removed == ["b/default"]
    assert set(origins(store)) == {"a/default", "b/extra"}


def test_a_file_that_names_a_schedule_made_by_hand_takes_it_over(store: SqliteStore) -> None:
    applied(store, make_fleet(make_schedule("a", origin=CreatedVia.CLI)), is_whole=False)

    done = applied(store, make_fleet(make_schedule("a", "10m", origin=file_location(7))))

    assert done.changed == ["a"]
    assert origins(store) == {"a/default": "herdbeat.yaml:7:3"}


def test_a_part_of_a_fleet_removes_nothing_and_may_name_targets_that_are_there(store: SqliteStore) -> None:
    applied(store, make_fleet(make_schedule("a"), make_schedule("b")))

    done = applied(store, make_fleet(make_schedule("b/more"), targets=()), is_whole=False)

    assert done == ApplyResult(added=["b/more"])
    assert set(origins(store)) == {"a/default", "b/default", "b/more"}


def test_lines_that_only_moved_change_no_schedule_but_its_place(store: SqliteStore) -> None:
    """Seen once: a comment at the top of a file was an edit of every schedule below it."""
    applied(store, make_fleet(make_schedule("a", origin=file_location(3))))
    before = store.write_now(lambda tx: list(tx.schedules([1]).values()))

    done = applied(store, make_fleet(make_schedule("a", origin=file_location(4))))

    assert done == ApplyResult()
    assert store.write_now(lambda tx: list(tx.schedules([1]).values())) == before
    assert origins(store) == {"a/default": "herdbeat.yaml:4:3"}


def test_what_is_broken_in_the_files_keeps_its_last_good_version(store: SqliteStore) -> None:
    """Once `up` took a schedule with a typing error for one that was deleted, and removed it."""
    applied(store, make_fleet(make_schedule("a"), make_schedule("b")))

    done = applied(store, replace(make_fleet(make_schedule("a", "10m"), make_schedule("c")), is_sound=False))

    assert done == ApplyResult(added=["c"], changed=["a"], removed=[])
    assert set(origins(store)) == {"a/default", "b/default", "c/default"}
