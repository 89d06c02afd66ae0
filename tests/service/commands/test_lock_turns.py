"""Turns at the state lock: short ones, with a pause after each in which a node can start."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from herdbeat.errors import Conflict
from herdbeat.service.commands.lock_turns import MAX_TURN_S, PAUSE_S, LockTurns
from herdbeat.store.location import exclusive_lock
from herdbeat.store.state_lock import find_lock_holder

CHANGE_S = 3 / 64  # exact as a floating point number


@dataclass
class LockWithTimes:
    """A lock and a clock that only moves when somebody sleeps or works."""

    now: float = 100.0
    taken: list[tuple[float, float]] = field(default_factory=list)

    def turns(self) -> LockTurns:
        return LockTurns(monotonic=lambda: self.now, sleep=self.work)

    def work(self, seconds: float) -> None:
        self.now += seconds

    @contextmanager
    def lock(self) -> Iterator[None]:
        began = self.now
        yield
        self.taken.append((began, self.now))


def test_after_a_turn_the_lock_is_free_for_a_second() -> None:
    times = LockWithTimes()
    turns = times.turns()

    for _ in range(3):
        with turns.hold(times.lock()):
            times.work(CHANGE_S)

    ends, begins = [end for _, end in times.taken], [begin for begin, _ in times.taken]
    assert [round(begin - end, 6) for begin, end in zip(begins[1:], ends, strict=False)] == [PAUSE_S] * 2


def test_changes_that_wait_share_a_turn_until_it_is_over() -> None:
    """Six changes of 3/64 s come at once: a fourth one would not end within 150 ms, so it begins a turn of its own."""
    times = LockWithTimes()
    turns = times.turns()

    def change() -> None:
        with turns.hold(times.lock()):
            times.work(CHANGE_S)

    threads = [threading.Thread(target=change) for _ in range(5)]
    with turns.hold(times.lock()):
        for each in threads:
            each.start()
        _wait_until_all_wait(turns, len(threads))
        times.work(CHANGE_S)
    for each in threads:
        each.join()

    lengths = [round(end - begin, 6) for begin, end in times.taken]
    assert lengths == [3 * CHANGE_S, 3 * CHANGE_S]
    assert max(lengths) <= MAX_TURN_S
    assert times.taken[1][0] - times.taken[0][1] == pytest.approx(PAUSE_S)


def test_a_lock_that_a_node_has_is_no_turn_and_the_next_one_may_try(tmp_path: Path) -> None:
    times = LockWithTimes()
    turns = times.turns()
    ledger = tmp_path / ".herdbeat" / "herdbeat.db"

    with exclusive_lock(ledger), pytest.raises(Conflict):
        _change(turns, exclusive_lock(ledger))
    assert not turns.is_holding
    _change(turns, exclusive_lock(ledger))

    assert find_lock_holder(ledger.parent) is None


def _change(turns: LockTurns, lock: AbstractContextManager[object]) -> None:
    with turns.hold(lock):
        assert turns.is_holding


def _wait_until_all_wait(turns: LockTurns, count: int) -> None:
    waiting = threading.Event()
    while turns._waiting < count:
        waiting.wait(0.001)
