"""Rules against the responses that a ledger has: which fields they really had."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.schedule_changes import open_reader

from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.errors import Severity
from herdbeat.service.queries.rules import find_unknown_fields
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd, open_herd

RESPONSE = {"queue_depth": 5, "queues": [{"name": "a", "depth": 1}], "load": {"cpu": 0.5, "memory": None}}


@pytest.fixture
async def herd(tmp_path: Path) -> AsyncIterator[SimulatedHerd]:
    async with open_herd(tmp_path) as opened:
        opened.schedule("queue", every="5m", runner=ScriptedRunner(outcomes=[answer(RESPONSE), answer({"errors": 1})]))
        await opened.tick()
        yield opened


def answer(response: Any) -> Outcome:
    return Outcome(status=RunStatus.SUCCEEDED, response=response)


def find_messages(herd: SimulatedHerd, **rule: str) -> list[str]:
    """Return what is said about a rule that the files have, and the ledger has not."""
    herd.schedule("queue", every="5m", adapt=({"name": "surge", "every": "1m", **rule},))
    with open_reader(herd) as reader:
        problems = list(find_unknown_fields(reader, herd.fleet("").schedules))
    assert {each.severity for each in problems} <= {Severity.WARNING}
    return [each.message for each in problems]


@pytest.mark.parametrize(
    ("when", "ending"),
    [
        ("response.queue_dept > 100", '"queue_dept"; did you mean "queue_depth"?'),
        ("response.unheard_of > 100", '"unheard_of".'),
        ("response.load.cpus > 1", '"cpus"; did you mean "cpu"?'),
        ("response.queues[0].dept > 1", '"dept"; did you mean "depth"?'),
        ("previous.response.queue_dept > 1", '"queue_dept"; did you mean "queue_depth"?'),
        ("runs[1].response.queue_dept > 1", '"queue_dept"; did you mean "queue_depth"?'),
        ("has(response.queue_dept) && response.queue_dept > 1", '"queue_dept"; did you mean "queue_depth"?'),
    ],
)
async def test_a_field_that_no_response_has_is_named(herd: SimulatedHerd, when: str, ending: str) -> None:
    assert find_messages(herd, when=when) == [f"Rule surge: none of the last 1 responses has {ending}"]


@pytest.mark.parametrize(
    "when",
    [
        "response.queue_depth > 100",
        "response.load.memory == null",
        "response.queues[7].depth > 1",
        "has(response.fatal) && response.fatal > 3",
        "has(response.load.swap) && response.load.swap.used > 3",
        'run.ok && siblings["other"].response.queue_dept > 1',
        "runs.exists(r, r.response.queue_dept > 1)",
    ],
)
async def test_a_field_that_is_there_or_may_be_missing_is_not_named(herd: SimulatedHerd, when: str) -> None:
    assert find_messages(herd, when=when) == []


async def test_until_is_looked_at_too_and_a_field_is_named_once(herd: SimulatedHerd) -> None:
    messages = find_messages(herd, when="response.queue_dept > 100", until="response.queue_dept < 50")

    assert len(messages) == 1


async def test_a_schedule_without_a_response_is_not_judged(tmp_path: Path) -> None:
    async with open_herd(tmp_path) as herd:
        assert find_messages(herd, when="response.anything > 1") == []
