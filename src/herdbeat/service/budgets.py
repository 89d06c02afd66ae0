"""What is left of a schedule's budgets, and what else is around it: asked of the ledger for one schedule."""

from datetime import datetime

from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.spend import BudgetDay, BudgetOwner, BudgetScope
from herdbeat.scheduler.budget import MAX_ESTIMATE_RUNS, BudgetUsage, ScheduleBudgets, budget_date, estimate_cost
from herdbeat.service.gates import GateContext
from herdbeat.store.reader import Reader

MAX_NODES = 1_000


def load_gate_context(reader: Reader, record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> GateContext:
    """The labels are those of all nodes that live and work: any of them may run it."""
    nodes = reader.nodes(MAX_NODES, now) if has_live_node and record.plan.policies.runs_on is not None else []
    labels = frozenset(label for node in nodes if node.works for label in node.labels)
    return GateContext(has_live_node=has_live_node, labels=labels, budgets=load_schedule_budgets(reader, record, now))


def load_schedule_budgets(reader: Reader, record: ScheduleRecord, now: datetime) -> ScheduleBudgets | None:
    """What it may use on the day of that moment. None if it neither has a budget nor shares one."""
    policies = record.plan.policies
    own = {} if policies.budget is None else {BudgetOwner(BudgetScope.SCHEDULE, record.id): policies.budget}
    held = own | reader.budgets(record.id)
    if not held:
        return None
    accounts = [(BudgetDay(holder, budget_date(now, policies.zone)), budget) for holder, budget in held.items()]
    budget_usages = tuple(BudgetUsage(account, budget, reader.budget_usage(account)) for account, budget in accounts)
    return ScheduleBudgets(estimate_cost(reader.last_usage(record.id, MAX_ESTIMATE_RUNS)), budget_usages)
