"""The conditions of a fleet as events: what becomes late, fails or has used up its budget, and what recovers.

The conditions are those that notifications are made of; nothing is decided here. They are read only while somebody
listens, every few seconds, because a schedule becomes late without anybody writing anything.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.notification import ActiveCondition, ConditionKind
from herdbeat.server.ledger_tail import LiveEvent
from herdbeat.service.notifications.conditions import ConditionSource
from herdbeat.service.serialize import JsonObject
from herdbeat.timestamps import format_timestamp

CHECK_INTERVAL = timedelta(seconds=5)
_BEGINNINGS = {
    ConditionKind.LATE: "schedule.late",
    ConditionKind.FAILING: "schedule.failing",
    ConditionKind.BUDGET: "budget.exceeded",
}
_RECOVERING = (ConditionKind.LATE, ConditionKind.FAILING)

Conditions = Mapping[tuple[ConditionKind, str], ActiveCondition]


@dataclass(slots=True)
class ConditionTail:
    """Compares the conditions with those of the last look. The first look is where a listener begins."""

    source: ConditionSource
    _known: Conditions | None = None
    _checked_at: datetime | None = None

    def poll(self, now: datetime, holder_pid: int | None) -> list[LiveEvent]:
        """Return what has begun and ended since the last look. `holder_pid` is the process that runs the fleet."""
        if self._checked_at is not None and timedelta(0) <= now - self._checked_at < CHECK_INTERVAL:
            return []
        self._checked_at, self.source.pid = now, holder_pid or 0
        found = {(each.kind, each.subject): each for each in self.source.read(now, frozenset(_BEGINNINGS))}
        known, self._known = self._known, found
        return [] if known is None else list(compare_conditions(known, found, now))


def compare_conditions(before: Conditions, after: Conditions, now: datetime) -> Iterator[LiveEvent]:
    """Yield the events that lie between two looks. Pure."""
    for key, condition in after.items():
        if key not in before:
            yield LiveEvent(_BEGINNINGS[condition.kind], condition.subject, _describe(condition, condition.since))
    for key, condition in before.items():
        if key not in after and condition.kind in _RECOVERING:
            data = {**_describe(condition, condition.since), "at": format_timestamp(now)}
            yield LiveEvent("schedule.recovered", condition.subject, data)


def _describe(condition: ActiveCondition, since: datetime | None) -> JsonObject:
    data: JsonObject = {"schedule": condition.subject, "condition": condition.kind, "detail": condition.detail}
    return {**data, "since": None if since is None else format_timestamp(since)}
