"""Schedules without a file: made, changed, removed, and refused where a file owns them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.command_bus import YOU, make_handle
from tests.support.schedule_builders import POLICIES, make_fleet, make_schedule

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.schedule import RunSpec
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.errors import Conflict, NotFound
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.service.commands.base import Command, DeleteSchedule, NewSchedule, NewTarget, UpsertSchedule
from herdbeat.service.commands.dispatch import execute
from herdbeat.store.reader import Filter, SqliteReader
from herdbeat.store.sqlite.store import SqliteStore
from herdbeat.store.state_lock import StateLock
from herdbeat.triggers import Interval

R = TypeVar("R")
NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
SHELL = NewTarget(kind="command", spec={"command": ["ls"], "working_directory": "/"})


def hourly(every: str = "1h") -> NewSchedule:
    return NewSchedule(
        plan=ScheduleSpec(trigger=Interval.parse(every), policies=POLICIES), brief=RunSpec(prompt="Do it.")
    )


def adding(
    target: str, name: str | None = "default", *, new: NewTarget | None = None, every: str = "1h"
) -> UpsertSchedule:
    schedule = hourly(every) if name is not None else None
    return UpsertSchedule(what=ChangeKind.ADD, target=target, name=name, new_target=new, new_schedule=schedule)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """With one schedule that stands in a file."""
    store = SqliteStore(tmp_path / "ledger.db")
    store.open()
    store.write_now(lambda tx: apply_fleet(tx, make_fleet(make_schedule("filed")), NOW))
    yield store
    store.close()


def do(store: SqliteStore, command: Command[R]) -> R:
    return store.write_now(lambda tx: execute(tx, NOW, YOU, command))


def labels(store: SqliteStore) -> list[str]:
    reader = SqliteReader(store.path)
    try:
        return [each.label for each in reader.schedules(Filter(limit=100))]
    finally:
        reader.close()


def test_a_new_target_with_its_schedule_is_due_at_once(store: SqliteStore) -> None:
    done = do(store, adding("tidy", new=SHELL))

    assert labels(store) == ["filed", "tidy"]
    assert (done.next_run_at, done.when) == (NOW, "every 1h")


def test_a_target_of_a_file_gets_one_more_schedule(store: SqliteStore) -> None:
    do(store, adding("filed", "evening"))

    assert labels(store) == ["filed", "filed/evening"]


def test_the_reason_for_making_and_changing_it_is_recorded(store: SqliteStore) -> None:
    changed = UpsertSchedule(
        what=ChangeKind.EDIT,
        target="tidy",
        name="default",
        new_schedule=hourly("2h"),
        reason="too often",
    )

    do(store, replace(adding("tidy", new=SHELL), reason="the disk fills up"))
    do(store, changed)

    reader = SqliteReader(store.path)
    newest = reader.changes(Filter(limit=3))
    reader.close()
    assert [(each.what, each.subject, each.after) for each in newest] == [
        (ChangeKind.EDIT, "tidy/default", {"when": "every 2h", "reason": "too often"}),
        (ChangeKind.ADD, "tidy/default", {"when": "every 1h", "reason": "the disk fills up"}),
        (ChangeKind.ADD, "tidy", {"kind": "command", "reason": "the disk fills up"}),
    ]


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        (adding("filed"), Conflict, "already a schedule .*herdbeat.yaml:1:3"),
        (adding("filed", "x", new=SHELL), Conflict, "already a target .*herdbeat.yaml:1:3"),
        (adding("nobody"), NotFound, "no target"),
        (
            UpsertSchedule(what=ChangeKind.EDIT, target="filed", name="default", new_schedule=hourly()),
            Conflict,
            "is defined in",
        ),
        (
            UpsertSchedule(what=ChangeKind.EDIT, target="filed", name="no", new_schedule=hourly()),
            NotFound,
            "no schedule",
        ),
        (DeleteSchedule(target="filed"), Conflict, "is defined in herdbeat.yaml:1:3"),
        (DeleteSchedule(target="filed", name="default"), Conflict, "is defined in"),
        (DeleteSchedule(target="no"), NotFound, "no schedule or target"),
    ],
)
def test_an_impossible_upsert_is_rejected_with_its_reason(
    store: SqliteStore, command: Command[object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        do(store, command)

    assert labels(store) == ["filed"]


def test_a_change_decides_again_and_leaves_a_row_with_its_author(store: SqliteStore) -> None:
    do(store, adding("tidy", new=SHELL))

    do(
        store,
        UpsertSchedule(what=ChangeKind.EDIT, target="tidy", name="default", new_schedule=hourly("2h")),
    )

    reader = SqliteReader(store.path)
    changes = reader.changes(Filter(target="tidy", name="default"))
    reader.close()
    assert [(each.who, each.what) for each in changes] == [
        ("human:you", ChangeKind.EDIT),
        ("human:you", ChangeKind.ADD),
    ]
    assert changes[0].after == {"when": "every 2h"}


def test_a_target_goes_with_its_schedules_and_comes_back_with_its_history(store: SqliteStore) -> None:
    do(store, adding("tidy", new=SHELL))
    do(store, adding("tidy", "late"))

    gone = do(store, DeleteSchedule(target="tidy"))
    do(store, adding("tidy", new=SHELL))

    assert gone.removed == ("tidy/default", "tidy/late", "tidy")
    assert labels(store) == ["filed", "tidy"]


def test_while_something_runs_the_ledger_is_not_touched(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herdbeat.service.commands.dispatch.LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr("herdbeat.control_socket.client.RETRY_INTERVAL_S", 0.01)
    command = replace(adding("tidy", new=SHELL))

    with StateLock(tmp_path), pytest.raises(Conflict, match="already running"):
        make_handle(store.path, NOW).dispatcher.run(YOU, command)
