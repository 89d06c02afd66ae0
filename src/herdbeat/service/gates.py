"""The gates of a schedule as people see them: which there are, in the order the engine asks them, and which is shut."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.spend import BudgetScope
from herdbeat.durations import humanize
from herdbeat.scheduler.budget import BudgetLimit, ScheduleBudgets, list_limits, next_reset_at
from herdbeat.scheduler.gates import AdmissionGate as Name
from herdbeat.service.holds import is_paused
from herdbeat.service.objects import JsonObject, format_optional_timestamp

SCHEDULER_GATE = "scheduler"
"""Before all others: without a scheduler, nobody asks them."""

BUDGET_SCOPE_SUFFIXES: Mapping[BudgetScope, str] = {
    BudgetScope.SCHEDULE: "",
    BudgetScope.TARGET: ", shared by the schedules of its target",
    BudgetScope.FLEET: ", shared by the whole fleet",
}
"""Whose budget it is, behind its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStatus:
    """Something that can hold a run back, and whether it does. `opens_at` is until when, if that is known."""

    gate: str
    ok: bool
    used: float | None = None
    most: float | None = None
    text: str = ""
    opens_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateContext:
    """What a schedule does not know itself: who runs here, under which labels, and what is left of its budgets."""

    has_live_node: bool
    labels: frozenset[str] = frozenset()
    budgets: ScheduleBudgets | None = None


def evaluate_gates(record: ScheduleRecord, context: GateContext, now: datetime) -> tuple[GateStatus, ...]:
    """Those that everybody has, and those that its policies set up."""
    checks = (_GATE_CHECKS[name](record, context, now) for name in Name if name in _GATE_CHECKS)
    return (GateStatus(gate=SCHEDULER_GATE, ok=context.has_live_node), *(gate for gate in checks if gate is not None))


def describe_closed(gates: Iterable[GateStatus], now: datetime) -> Iterator[str]:
    """What the governor's trace does not say: gates that are asked only when a beat wants to start."""
    for gate in gates:
        if gate.ok:
            continue
        if gate.gate == Name.BUDGET and gate.opens_at is not None:
            left = humanize(gate.opens_at - now)
            yield f"its budget is used up ({gate.text}); it opens again in {left}, until then beats are skipped"
        if gate.gate == Name.LABEL:
            give = f"give it to one: herdbeat up --label {gate.text}"
            yield f'no live node has the label "{gate.text}", so its beats are skipped; {give}'


def serialize_gate(gate: GateStatus) -> JsonObject:
    found: JsonObject = {"gate": gate.gate, "ok": gate.ok}
    if gate.most is not None:
        found |= {"used": gate.used, "max": gate.most}
    if gate.text:
        found["text"] = gate.text
    if gate.opens_at is not None:
        found["opens_at"] = format_optional_timestamp(gate.opens_at)
    return found


def format_amount(name: str, number: float) -> str:
    """What a budget counts, as people write it: $0.25, 41,000 tokens, 3 runs."""
    if name == "usd_per_day":
        return f"${number:,.2f}".removesuffix(".00")
    return f"{number:,.0f}"


def _check_enabled(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus:  # noqa: ARG001 - one shape for all
    return GateStatus(gate=Name.ENABLED, ok=record.enabled and record.disabled_by is None)


def _check_not_paused(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus:  # noqa: ARG001
    return GateStatus(gate=Name.NOT_PAUSED, ok=not is_paused(record, now))


def _check_bounds(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus | None:  # noqa: ARG001
    bounds = record.plan.policies.bounds
    if bounds.ends_at is None and bounds.starts_at is None and bounds.max_runs is None:
        return None
    has_begun = bounds.starts_at is None or bounds.starts_at <= now
    is_over = (bounds.ends_at is not None and bounds.ends_at < now) or (
        bounds.max_runs is not None and record.runs >= bounds.max_runs
    )
    used = None if bounds.max_runs is None else record.runs
    opens_at = None if has_begun else bounds.starts_at
    return GateStatus(
        gate=Name.BOUNDS, ok=has_begun and not is_over, used=used, most=bounds.max_runs, opens_at=opens_at
    )


def _check_not_running(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus:  # noqa: ARG001
    return GateStatus(gate=Name.NOT_RUNNING, ok=record.running == 0)


def _check_active_hours(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus | None:  # noqa: ARG001
    hours = record.plan.policies.active_hours
    if hours is None:
        return None
    is_open = hours.contains(now)
    opens_at = None if is_open else hours.next_opening(now)
    return GateStatus(gate=Name.ACTIVE_HOURS, ok=is_open, text=str(hours), opens_at=opens_at)


def _check_budget(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus | None:
    if context.budgets is None:
        return None
    scope, limit = find_tightest_limit(context.budgets)
    opens_at = next_reset_at(now, record.plan.policies.zone) if limit.is_reached else None
    return GateStatus(
        gate=Name.BUDGET,
        ok=not limit.is_reached,
        used=limit.used,
        most=limit.most,
        text=describe_usage(scope, limit),
        opens_at=opens_at,
    )


def find_tightest_limit(budgets: ScheduleBudgets) -> tuple[BudgetScope, BudgetLimit]:
    """Of several limits the one that is reached, else the one that comes closest; and whose it is."""
    found = [
        (purse.account.holder.scope, limit)
        for purse in budgets.budget_usages
        for limit in list_limits(purse.budget, purse.spent, budgets.estimate)
    ]
    return max(found, key=lambda each: (each[1].is_reached, each[1].used / each[1].most if each[1].most else 1.0))


def describe_usage(scope: BudgetScope, limit: BudgetLimit) -> str:
    """3/3 runs, shared by the whole fleet."""
    unit = {"tokens_per_day": " tokens", "runs_per_day": " runs"}.get(limit.name, "")
    used, most = format_amount(limit.name, limit.used), format_amount(limit.name, limit.most)
    return f"{used}/{most}{unit}{BUDGET_SCOPE_SUFFIXES[scope]}"


def _check_label(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus | None:  # noqa: ARG001
    wanted = record.plan.policies.runs_on
    return None if wanted is None else GateStatus(gate=Name.LABEL, ok=wanted in context.labels, text=wanted)


def _check_capacity(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus:  # noqa: ARG001
    used, most = record.target_running, record.target_room
    return GateStatus(gate=Name.CAPACITY, ok=used < most, used=used, most=most)


def _check_precheck(record: ScheduleRecord, context: GateContext, now: datetime) -> GateStatus | None:  # noqa: ARG001
    """What it will say nobody knows before it is asked; that it is asked, people should."""
    argv = record.plan.policies.precheck
    return GateStatus(gate=Name.PRECHECK, ok=True, text=f"{argv[0]} is asked first") if argv else None


_GATE_CHECKS: Mapping[Name, Callable[[ScheduleRecord, GateContext, datetime], GateStatus | None]] = {
    Name.ENABLED: _check_enabled,
    Name.NOT_PAUSED: _check_not_paused,
    Name.BOUNDS: _check_bounds,
    Name.NOT_RUNNING: _check_not_running,
    Name.ACTIVE_HOURS: _check_active_hours,
    Name.BUDGET: _check_budget,
    Name.LABEL: _check_label,
    Name.CAPACITY: _check_capacity,
    Name.PRECHECK: _check_precheck,
}
