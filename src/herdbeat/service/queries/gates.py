"""The gates of a schedule as people see them: which there are, in the order the engine asks them, and which is shut."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.durations import format_duration, humanize
from herdbeat.scheduler.admission import AdmissionGate as Name
from herdbeat.scheduler.budgets import (
    MAX_ESTIMATE_RUNS,
    BudgetLimit,
    BudgetUsage,
    ScheduleBudgets,
    budget_date,
    estimate_cost,
    list_limits,
    next_reset_at,
)
from herdbeat.service.queries.schedule_state import is_paused
from herdbeat.service.serialize import JsonObject, format_optional_timestamp
from herdbeat.store.reader import Reader
from herdbeat.timestamps import format_timestamp

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
        most=limit.maximum,
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
    return max(found, key=lambda each: (each[1].is_reached, each[1].used / each[1].maximum if each[1].maximum else 1.0))


def describe_usage(scope: BudgetScope, limit: BudgetLimit) -> str:
    """3/3 runs, shared by the whole fleet."""
    unit = {"tokens_per_day": " tokens", "runs_per_day": " runs"}.get(limit.name, "")
    used, most = format_amount(limit.name, limit.used), format_amount(limit.name, limit.maximum)
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


# What is left of a schedule's budgets, and what else is around it: asked of the ledger for one schedule.


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


# The words for why an instant did not run, which policy said so, and what would change it.


_ONE_MICROSECOND = timedelta(microseconds=1)

MISSED_TEXTS = {
    MissedReason.SCHEDULER_DOWN: "nothing was running here",
    MissedReason.SLEPT: "this machine slept",
    MissedReason.CLOCK_JUMPED: "the clock was moved",
    MissedReason.TOO_LATE: "it came too late",
    MissedReason.RESTORED: "the ledger was restored from a backup",
}

_SKIP_TEXTS = {
    SkipReason.ALREADY_RUNNING: "its earlier run was still going",
    SkipReason.AT_CAPACITY: "the target had no room",
    SkipReason.DISABLED: "the schedule was disabled",
    SkipReason.PAUSED: "the schedule was paused",
    SkipReason.NO_WORK: "its work source had nothing to do",
    SkipReason.BUDGET_EXCEEDED: "its budget was used up",
    SkipReason.PRECHECK: "its precheck declined",
    SkipReason.FILTERED: "its filter did not let it through",
    SkipReason.INACTIVE_HOURS: "it fell outside its active hours",
    SkipReason.WORK_SOURCE_ERROR: "its work source failed",
    SkipReason.CONFIG_ERROR: "its configuration could not be used",
    SkipReason.EXPIRED: "its life was over",
    SkipReason.TARGET_OFFLINE: "no live node may run it",
    SkipReason.BY_REQUEST: "somebody asked to let it pass",
    SkipReason.UNSUPPORTED_TYPE: "the clock does not fire this kind of trigger",
}


@dataclass(frozen=True, slots=True)
class DecidingPolicy:
    """A policy that had a say: its key, what it did, and what to write to change that (empty: nothing).

    `is_shared` says that it is not written with the schedule.
    """

    key: str
    text: str
    fix: str = ""
    is_shared: bool = False


def is_skipped_by_active_hours(record: ScheduleRecord, at: datetime, now: datetime) -> bool:
    """An instant of the calendar since its last beat, outside its active hours, which has no row yet."""
    trigger, hours = record.plan.trigger, record.plan.policies.active_hours
    if hours is None or hours.contains(at) or not record.anchor_at < at <= now:
        return False
    return isinstance(trigger, CalendarTrigger) and trigger.latest(at - _ONE_MICROSECOND, at) == at


def describe_skip(reason: str) -> str:
    return _SKIP_TEXTS.get(SkipReason(reason), reason) if reason in set(SkipReason) else reason


def find_deciding_policy(
    record: ScheduleRecord, beat: BeatRecord, budgets: ScheduleBudgets | None = None
) -> DecidingPolicy | None:
    """The policy that decided the fate of a beat; None if none did. `wallet` is what its day had left."""
    policies = record.plan.policies
    if beat.outcome is BeatOutcome.MISSED:
        return _explain_missed(record.plan.trigger.kind, policies, beat.reason)
    if beat.outcome is BeatOutcome.MERGED:
        if beat.reason == Catchup.ONCE:
            return DecidingPolicy("catchup", "once: one run stands for everything that was missed", "catchup: all")
        return DecidingPolicy(
            "overlap", f"{policies.overlap}: the beat that was waiting stands for it", "overlap: queue_all"
        )
    return _explain_skipped(policies, beat, budgets) if beat.outcome is BeatOutcome.SKIPPED else None


def _explain_skipped(policies: Policies, beat: BeatRecord, budgets: ScheduleBudgets | None) -> DecidingPolicy | None:
    match beat.reason:
        case SkipReason.ALREADY_RUNNING:
            return DecidingPolicy(
                "overlap", f"{policies.overlap}: a beat that meets an earlier run is skipped", "overlap: queue"
            )
        case SkipReason.INACTIVE_HOURS if policies.active_hours is not None:
            text = f"{policies.active_hours} {policies.active_hours.zone.key}: nothing runs outside"
            return DecidingPolicy("active_hours", text, "active_hours: wider")
        case SkipReason.BUDGET_EXCEEDED if budgets is not None:
            return _explain_budget(policies, budgets)
        case SkipReason.PRECHECK if policies.precheck:
            return DecidingPolicy("precheck", f"{shlex.join(policies.precheck)} exited with 1")
        case SkipReason.EXPIRED:
            return _explain_expired(policies, beat)
        case SkipReason.TARGET_OFFLINE if policies.runs_on is not None:
            text = f"{policies.runs_on}: only nodes with this label run it (herdbeat up --label {policies.runs_on})"
            return DecidingPolicy("runs_on", text)
        case _:
            return None


def _explain_budget(policies: Policies, budgets: ScheduleBudgets) -> DecidingPolicy:
    scope, limit = find_tightest_limit(budgets)
    text = f"{describe_usage(scope, limit)}, on {budgets.budget_usages[0].account.day} {policies.zone.key}"
    fix = {
        BudgetScope.TARGET: "budget: more beside its target",
        BudgetScope.FLEET: "budget: more at the top of the fleet file",
    }
    return DecidingPolicy("budget", text, fix.get(scope, "budget: more"), is_shared=scope is not BudgetScope.SCHEDULE)


def _explain_expired(policies: Policies, beat: BeatRecord) -> DecidingPolicy | None:
    """`max_runs` if the end was not there yet; nothing if neither was set, as for a schedule that was removed."""
    bounds, settled_at = policies.bounds, beat.settled_at
    if bounds.ends_at is not None and (settled_at is None or settled_at > bounds.ends_at):
        return DecidingPolicy(
            "ends_at", f"{format_timestamp(bounds.ends_at)}: nothing starts after it", "a later ends_at"
        )
    if bounds.max_runs is not None:
        return DecidingPolicy("max_runs", f"{bounds.max_runs}: it has had them, or they are going on", "max_runs: more")
    return None


def _explain_missed(kind: TriggerKind, policies: Policies, reason: str) -> DecidingPolicy:
    if reason == MissedReason.TOO_LATE and policies.max_late is not None:
        limit = format_duration(policies.max_late)
        return DecidingPolicy("max_late", f"{limit}: what is older is never run", f"max_late: longer than {limit}")
    if policies.catchup is Catchup.ALL:
        return DecidingPolicy(
            "catchup", f"all, but the newest {policies.catchup_max} only (catchup_max)", "catchup_max: more"
        )
    if kind is TriggerKind.CRON:
        return DecidingPolicy("catchup", "skip: cron schedules are not caught up unless you ask", "catchup: once")
    return DecidingPolicy("catchup", f"{policies.catchup}: what was missed is not run later", "catchup: once")
