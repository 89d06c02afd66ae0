"""What is left of a schedule's budgets, and what else is around it: asked of the ledger for one schedule."""

from datetime import datetime

from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.spend import Account, Holder, Scope
from herdbeat.scheduler.budget import LAST, Purse, Wallet, day_of, estimate
from herdbeat.service.gates import Around
from herdbeat.store.reader import Reader

MANY = 1_000


def look_around(reader: Reader, record: ScheduleRecord, now: datetime, *, is_served: bool) -> Around:
    """The labels are those of all nodes that live and work: any of them may run it."""
    nodes = reader.nodes(MANY, now) if is_served and record.plan.policies.runs_on is not None else []
    labels = frozenset(label for node in nodes if node.works for label in node.labels)
    return Around(is_served=is_served, labels=labels, wallet=wallet_of(reader, record, now))


def wallet_of(reader: Reader, record: ScheduleRecord, now: datetime) -> Wallet | None:
    """What it may use on the day of that moment. None if it neither has a budget nor shares one."""
    policies = record.plan.policies
    own = {} if policies.budget is None else {Holder(Scope.SCHEDULE, record.id): policies.budget}
    held = own | reader.budgets(record.id)
    if not held:
        return None
    accounts = [(Account(holder, day_of(now, policies.zone)), budget) for holder, budget in held.items()]
    purses = tuple(Purse(account, budget, reader.spent(account)) for account, budget in accounts)
    return Wallet(estimate(reader.last_usage(record.id, LAST)), purses)
