"""What is left of a schedule's budget, and what else is around it: asked of the ledger for one schedule."""

from datetime import datetime

from herdbeat.domain.records import ScheduleRecord
from herdbeat.scheduler.budget import LAST, Purse, day_of, estimate
from herdbeat.service.gates import Around
from herdbeat.store.reader import Reader


def look_around(reader: Reader, record: ScheduleRecord, now: datetime, *, is_served: bool) -> Around:
    node = reader.last_node() if is_served and record.plan.policies.runs_on is not None else None
    labels = frozenset(node.labels if node is not None else ())
    return Around(is_served=is_served, labels=labels, purse=purse_of(reader, record, now))


def purse_of(reader: Reader, record: ScheduleRecord, now: datetime) -> Purse | None:
    """None if it has no budget."""
    policies = record.plan.policies
    if policies.budget is None:
        return None
    day = day_of(now, policies.zone)
    return Purse(policies.budget, day, reader.spent(record.id, day), estimate(reader.last_usage(record.id, LAST)))
