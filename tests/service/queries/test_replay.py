"""A whole ledger is replayed: every stored decision from its stored inputs."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.schedule_changes import HOUR, MINUTE, TEN, YOU, open_reader

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Jitter, Limits
from herdbeat.domain.selection import Selection
from herdbeat.service.queries.replay import LedgerReplay, replay_ledger
from herdbeat.service.queries.selectors import select_schedules
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    """A ledger with every kind of decision: cron and intervals, hints, limits, failures, pauses, jitter."""
    async with open_herd(tmp_path, TEN) as opened:
        opened.schedule("queue", every="5m", limits=Limits(at_least=MINUTE, at_most=HOUR))
        opened.schedule("report", cron="*/20 * * * *", jitter=Jitter(span=2 * MINUTE))
        opened.schedule("flaky", every="3m", runner=ScriptedRunner(fails=4))
        await opened.tick()
        for step in range(8):
            if step == 2:
                opened.hint("queue", Hint(origin=YOU, every=timedelta(seconds=10), expires_at=opened.now + 20 * MINUTE))
                opened.hint("report", Hint(origin=YOU, at=opened.now + MINUTE, expires_at=opened.now + HOUR))
            if step == 4:
                opened.pause("queue", opened.now + 15 * MINUTE)
            await opened.advance(10 * MINUTE)
        yield opened


def replay(herd: SimulatedHerd) -> LedgerReplay:
    with open_reader(herd) as reader:
        return replay_ledger(reader, select_schedules(reader, Selection(names=(), everything=True)))


async def test_stored_inputs_replay_to_stored_decisions_over_a_whole_ledger(herd: SimulatedHerd) -> None:
    result = replay(herd)

    assert result.different == 0, result.differences
    assert (result.schedules, result.unknown, result.edited) == (3, 0, 0)
    assert result.same == result.decisions > 30


async def test_a_decision_that_would_be_another_today_is_found(herd: SimulatedHerd) -> None:
    """As after an update of the governor that changed a rule unnoticed."""
    before = replay(herd)
    with closing(sqlite3.connect(herd.store.path)) as ledger:
        (changed,) = ledger.execute("SELECT max(id) FROM beat WHERE trace LIKE '%baseline every 5m%'").fetchone()
        ledger.execute("UPDATE beat SET trace = replace(trace, 'every 5m', 'every 6m') WHERE id = ?", (changed,))
        ledger.commit()

    result = replay(herd)

    assert before.is_clean
    assert (result.different, result.same) == (1, before.same - 1)
    (found,) = result.differences
    assert (found.schedule, found.beat_id) == ("queue", changed)
    assert found.replayed is not None
