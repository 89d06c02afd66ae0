"""Conditions as events: told once when they begin, once when they end, and not at all to those who just came."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from tests.server.conftest import NOW, ServedFleet
from tests.server.test_events import end_run, names, write

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.notification import ActiveCondition, ConditionKind
from herdbeat.events import ConfigRejected
from herdbeat.scheduler.manual import claim_single
from herdbeat.scheduler.membership import NodeInfo, register_node
from herdbeat.server.ledger_tail import CHECK_INTERVAL, ConditionTail, LedgerTail, compare_conditions
from herdbeat.service.commands.base import Actor, HintSchedules
from herdbeat.service.config_watch import build_rejection
from herdbeat.service.notifications.conditions import ConditionSource
from herdbeat.store.base import Transaction

LATE = ActiveCondition(kind=ConditionKind.LATE, subject="backup", since=NOW, detail="at_capacity")
BUDGET = ActiveCondition(kind=ConditionKind.BUDGET, subject="triage/issues", since=NOW, detail="")


def keyed(*conditions: ActiveCondition) -> dict[tuple[ConditionKind, str], ActiveCondition]:
    return {(each.kind, each.subject): each for each in conditions}


def test_what_begins_is_told_and_what_ends_has_recovered() -> None:
    begun = list(compare_conditions({}, keyed(LATE, BUDGET), NOW))
    unchanged = list(compare_conditions(keyed(LATE), keyed(LATE), NOW))
    ended = list(compare_conditions(keyed(LATE, BUDGET), {}, NOW))

    assert [(each.name, each.subject) for each in begun] == [
        ("schedule.late", "backup"),
        ("budget.exceeded", "triage/issues"),
    ]
    assert unchanged == []
    assert [(each.name, each.data["condition"]) for each in ended] == [("schedule.recovered", "late")]


@pytest.fixture
def conditions(served: ServedFleet) -> Iterator[ConditionTail]:
    with closing(served.gateway.open_own_reader()) as reader:
        yield ConditionTail(ConditionSource(reader, NOW, 0))


def test_a_schedule_that_fails_already_is_not_told_and_its_recovery_is(
    served: ServedFleet, conditions: ConditionTail
) -> None:
    first = conditions.poll(NOW, None)  # triage/issues has failed before
    too_soon = conditions.poll(NOW + CHECK_INTERVAL / 2, None)

    def claim(tx: Transaction) -> int:
        node = register_node(tx, NOW, NodeInfo(host="there", pid=2, version="test")).node_id
        return claim_single(tx, NOW, node, 1, origin="human:you", event_id="again").claims[0].run_id

    run: Any = write(served.gateway.handle.path, claim)
    end_run(served, run)
    later = conditions.poll(NOW + CHECK_INTERVAL, None)

    assert (first, too_soon) == ([], [])
    assert [(each.name, each.subject, each.data["condition"]) for each in later] == [
        ("schedule.recovered", "triage/issues", "failing")
    ]


def test_a_clock_that_was_set_back_does_not_silence_the_conditions(conditions: ConditionTail) -> None:
    conditions.poll(NOW, None)

    conditions.poll(NOW - timedelta(days=1), None)

    assert conditions._checked_at == NOW - timedelta(days=1)


def test_a_rule_that_gives_a_hint_has_fired(served: ServedFleet) -> None:
    with closing(served.gateway.open_own_reader()) as reader:
        tail = LedgerTail(reader, NOW)
        tail.poll(NOW)
        served.gateway.deliver(
            Actor(name="rule:surge"), HintSchedules(schedules=(3,), every=30.0, lasts=900.0, reason="queue at 150")
        )
        events = tail.poll(NOW)

    fired = [each.data for each in events if each.name == "rule.fired"]
    assert fired == [{"schedule": "queue-depth", "rule": "surge", "reason": "queue at 150"}]
    assert "hint.set" in names(events)


def test_files_that_are_refused_are_an_event_and_a_row_of_the_change_log(served: ServedFleet) -> None:
    rejected = ConfigRejected(NOW, "herdbeat.yaml:3:1", 'unknown key "agnets"', 1)
    with closing(served.gateway.open_own_reader()) as reader:
        tail = LedgerTail(reader, NOW)
        tail.poll(NOW)
        write(served.gateway.handle.path, lambda tx: tx.add_changes([build_rejection(rejected)]))
        events = tail.poll(NOW)

    assert names(events) == ["config.rejected"]
    assert events[0].data["where"] == "herdbeat.yaml:3:1"
    newest = served.client().get("/api/v1/changes").json()["items"][0]
    assert (newest["what"], newest["subject"]) == (ChangeKind.REJECT, "config")
