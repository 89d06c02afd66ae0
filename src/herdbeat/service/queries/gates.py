"""The gates of a schedule: what can hold a run back, whether it does, and the policy that decided a past beat.

`evaluate_gates` and `find_deciding_policy` are pure; `load_gate_context` reads from the ledger what they need.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.account_hold import AccountHold
from herdbeat.domain.beat import BeatOutcome, MergedReason, MissedReason, SkipReason
from herdbeat.domain.budget import BudgetDay, BudgetOwner, BudgetScope
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.policies import ActiveHours, Bounds, Catchup, Policies
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.durations import format_duration, humanize
from herdbeat.scheduler.admission import AdmissionGate
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
from herdbeat.service.queries.schedule_state import resolve_condition
from herdbeat.service.queries.schedules import match_account_holds
from herdbeat.store.reader import Reader
from herdbeat.timestamps import format_timestamp

SCHEDULER_GATE = "scheduler"
"""Comes before the gates of `AdmissionGate`: without a scheduler nothing checks those."""

BUDGET_SCOPE_SUFFIXES: Mapping[BudgetScope, str] = {
    BudgetScope.SCHEDULE: "",
    BudgetScope.TARGET: ", shared by the schedules of its target",
    BudgetScope.FLEET: ", shared by the whole fleet",
}
"""The owner of a budget, in words that follow its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStatus:
    """One gate, and whether it is open. `opens_at` is when a closed one opens, if that is known."""

    gate: str
    ok: bool
    used: float | None = None
    most: float | None = None
    text: str = ""
    opens_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateContext:
    """What a record does not hold: the labels of the live nodes, what is left of the budgets, and a held account."""

    has_live_node: bool
    labels: frozenset[str] = frozenset()
    budgets: ScheduleBudgets | None = None
    account_hold: AccountHold | None = None


def evaluate_gates(record: ScheduleRecord, context: GateContext, now: datetime) -> tuple[GateStatus, ...]:
    """Return the gates that every schedule has and those that its policies add, in the order the engine checks them."""
    condition, policies = resolve_condition(record, now), record.plan.policies
    label, precheck = policies.runs_on, policies.precheck
    used, limit = record.target_running, record.target_room
    gates = (
        GateStatus(gate=SCHEDULER_GATE, ok=context.has_live_node),
        GateStatus(gate=AdmissionGate.ENABLED, ok=condition.is_enabled),
        GateStatus(gate=AdmissionGate.NOT_PAUSED, ok=not condition.is_paused),
        _check_bounds(policies.bounds, record.runs, now),
        GateStatus(gate=AdmissionGate.NOT_RUNNING, ok=record.running == 0),
        _check_active_hours(policies.active_hours, now),
        _check_budget(context.budgets, policies.zone, now),
        _check_account(context.account_hold),
        None if label is None else GateStatus(gate=AdmissionGate.LABEL, ok=label in context.labels, text=label),
        GateStatus(gate=AdmissionGate.CAPACITY, ok=used < limit, used=used, most=limit),
        # Its answer is unknown before it runs. That it will be run should be visible, or a skip is a surprise.
        GateStatus(gate=AdmissionGate.PRECHECK, ok=True, text=f"{precheck[0]} runs first") if precheck else None,
    )
    return tuple(gate for gate in gates if gate is not None)


def describe_closed(gates: Iterable[GateStatus], now: datetime) -> Iterator[str]:
    """Explain closed gates that the governor's trace does not mention, because only a beat that is due checks them."""
    for gate in gates:
        if gate.ok:
            continue
        if gate.gate == AdmissionGate.BUDGET and gate.opens_at is not None:
            left = humanize(gate.opens_at - now)
            is_used_up = gate.used is None or gate.most is None or gate.used >= gate.most
            state = "is used up" if is_used_up else "has no room for one more run"
            yield f"its budget {state} ({gate.text}); beats are skipped for another {left}"
        if gate.gate == AdmissionGate.ACCOUNT and gate.opens_at is not None:
            yield f"its account is held: {gate.text}, opens in {humanize(gate.opens_at - now)}"
        if gate.gate == AdmissionGate.LABEL:
            give = f"start one: herdbeat up --label {gate.text}"
            yield f'no live node has the label "{gate.text}", and its beats are skipped; {give}'


def format_amount(name: str, number: float) -> str:
    """Format a number of a budget as people write it: $0.25, 41,000."""
    return f"${number:,.2f}".removesuffix(".00") if name == "usd_per_day" else f"{number:,.0f}"


def _check_bounds(bounds: Bounds, runs: int, now: datetime) -> GateStatus | None:
    if bounds.ends_at is None and bounds.starts_at is None and bounds.max_runs is None:
        return None
    opens_at = bounds.starts_at if bounds.starts_at is not None and bounds.starts_at > now else None
    has_ended = bounds.ends_at is not None and bounds.ends_at < now
    has_had_all = bounds.max_runs is not None and runs >= bounds.max_runs
    is_open = opens_at is None and not has_ended and not has_had_all
    used = None if bounds.max_runs is None else runs
    return GateStatus(gate=AdmissionGate.BOUNDS, ok=is_open, used=used, most=bounds.max_runs, opens_at=opens_at)


def _check_active_hours(hours: ActiveHours | None, now: datetime) -> GateStatus | None:
    if hours is None:
        return None
    is_open = hours.contains(now)
    opens_at = None if is_open else hours.next_opening(now)
    return GateStatus(gate=AdmissionGate.ACTIVE_HOURS, ok=is_open, text=str(hours), opens_at=opens_at)


def _check_budget(budgets: ScheduleBudgets | None, zone: ZoneInfo, now: datetime) -> GateStatus | None:
    if budgets is None:
        return None
    scope, limit = find_tightest_limit(budgets)
    gate, is_open, text = AdmissionGate.BUDGET, not limit.is_reached, describe_usage(scope, limit)
    opens_at = None if is_open else next_reset_at(now, zone)
    return GateStatus(gate=gate, ok=is_open, used=limit.used, most=limit.maximum, text=text, opens_at=opens_at)


def _check_account(hold: AccountHold | None) -> GateStatus | None:
    """Only a held account has a gate: which account an agent uses is shown with the agent."""
    if hold is None:
        return None
    return GateStatus(gate=AdmissionGate.ACCOUNT, ok=False, text=describe_hold(hold), opens_at=hold.until)


def describe_hold(hold: AccountHold) -> str:
    """Return `team (opus), usage limit reached by run 7f3k`."""
    model = f" ({hold.model})" if hold.model else ""
    return f"{hold.account}{model}, usage limit reached by run {format_short_id(hold.run_id)}"


def find_tightest_limit(budgets: ScheduleBudgets) -> tuple[BudgetScope, BudgetLimit]:
    """Return the limit that is reached, else the one closest to it, with the scope that owns it."""
    found = [
        (purse.account.holder.scope, limit)
        for purse in budgets.budget_usages
        for limit in list_limits(purse.budget, purse.spent, budgets.estimate)
    ]
    return max(found, key=lambda each: (each[1].is_reached, each[1].used / each[1].maximum if each[1].maximum else 1.0))


def describe_usage(scope: BudgetScope, limit: BudgetLimit) -> str:
    """3/3 runs, shared by the whole fleet. With what a run takes, where that is more than what is left."""
    unit = {"tokens_per_day": " tokens", "runs_per_day": " runs"}.get(limit.name, "")
    used, most = format_amount(limit.name, limit.used), format_amount(limit.name, limit.maximum)
    is_short = limit.is_reached and limit.used < limit.maximum
    more = f", a run takes about {format_amount(limit.name, limit.estimate)}" if is_short else ""
    return f"{used}/{most}{unit}{BUDGET_SCOPE_SUFFIXES[scope]}{more}"


MAX_NODES = 1_000


def load_gate_context(reader: Reader, record: ScheduleRecord, now: datetime, *, has_live_node: bool) -> GateContext:
    """Read what the gates need. Labels count of every live node that runs work: any may take the beat."""
    nodes = reader.nodes(MAX_NODES, now) if has_live_node and record.plan.policies.runs_on is not None else []
    labels = frozenset(label for node in nodes if node.works for label in node.labels)
    return GateContext(
        has_live_node=has_live_node,
        labels=labels,
        budgets=load_schedule_budgets(reader, record, now),
        account_hold=find_hold_of(reader, record, now),
    )


def find_hold_of(reader: Reader, record: ScheduleRecord, now: datetime) -> AccountHold | None:
    """Return the hold of an account that a schedule waits for; of several, the last to end."""
    return match_account_holds(reader, [record], now).get(record.id)


def load_schedule_budgets(reader: Reader, record: ScheduleRecord, now: datetime) -> ScheduleBudgets | None:
    """Return the budgets of a schedule on the day of `now`; None if it neither has nor shares one."""
    policies = record.plan.policies
    own = {} if policies.budget is None else {BudgetOwner(BudgetScope.SCHEDULE, record.id): policies.budget}
    held = own | reader.budgets(record.id)
    if not held:
        return None
    accounts = [(BudgetDay(holder, budget_date(now, policies.zone)), budget) for holder, budget in held.items()]
    budget_usages = tuple(BudgetUsage(account, budget, reader.budget_usage(account)) for account, budget in accounts)
    return ScheduleBudgets(estimate_cost(reader.last_usage(record.id, MAX_ESTIMATE_RUNS)), budget_usages)


# Why an instant did not run, which policy decided that, and which setting would change it.


_ONE_MICROSECOND = timedelta(microseconds=1)

MISSED_TEXTS = {
    MissedReason.SCHEDULER_DOWN: "no scheduler was running",
    MissedReason.SLEPT: "this machine was asleep",
    MissedReason.CLOCK_JUMPED: "the system clock was changed",
    MissedReason.TOO_LATE: "it was too late",
    MissedReason.RESTORED: "the ledger was restored from a backup",
}

_SKIP_TEXTS = {
    SkipReason.ALREADY_RUNNING: "its previous run was still active",
    SkipReason.AT_CAPACITY: "the target was at capacity",
    SkipReason.DISABLED: "the schedule was disabled",
    SkipReason.PAUSED: "the schedule was paused",
    SkipReason.NO_WORK: "its work source had no work",
    SkipReason.BUDGET_EXCEEDED: "its budget was used up",
    SkipReason.PRECHECK: "its precheck exited with status 1",
    SkipReason.FILTERED: "its filter did not match",
    SkipReason.INACTIVE_HOURS: "it was outside its active hours",
    SkipReason.WORK_SOURCE_ERROR: "its work source failed",
    SkipReason.CONFIG_ERROR: "its configuration was invalid",
    SkipReason.EXPIRED: "the schedule had expired",
    SkipReason.TARGET_OFFLINE: "no live node has its label",
    SkipReason.BY_REQUEST: "skipped by request",
    SkipReason.RATE_LIMITED: "its account had reached its usage limit",
    SkipReason.UNSUPPORTED_TYPE: "this kind of trigger does not fire by time",
}


@dataclass(frozen=True, slots=True)
class DecidingPolicy:
    """A policy that decided: its key, what it did, and the setting that would change it (empty: none).

    `is_shared` marks a policy that is not written with the schedule.
    """

    key: str
    text: str
    fix: str = ""
    is_shared: bool = False


def is_skipped_by_active_hours(record: ScheduleRecord, at: datetime, now: datetime) -> bool:
    """Whether `at` is an instant of the calendar outside the active hours that has no row yet.

    Such instants are recorded in one row when the hours open again.
    """
    trigger, hours = record.plan.trigger, record.plan.policies.active_hours
    if hours is None or hours.contains(at) or not record.anchor_at < at <= now:
        return False
    return isinstance(trigger, CalendarTrigger) and trigger.latest(at - _ONE_MICROSECOND, at) == at


def describe_skip(reason: str) -> str:
    return _SKIP_TEXTS.get(SkipReason(reason), reason) if reason in set(SkipReason) else reason


def find_deciding_policy(
    record: ScheduleRecord, beat: BeatRecord, budgets: ScheduleBudgets | None = None
) -> DecidingPolicy | None:
    """Return the policy that decided the outcome of a beat; None if none did. `budgets` are those of its day."""
    policies = record.plan.policies
    if beat.outcome is BeatOutcome.MISSED:
        return _explain_missed(record.plan.trigger.kind, policies, beat.reason)
    if beat.outcome is BeatOutcome.MERGED:
        return _explain_merged(policies, beat.reason)
    return _explain_skipped(policies, beat, budgets) if beat.outcome is BeatOutcome.SKIPPED else None


def _explain_merged(policies: Policies, reason: str) -> DecidingPolicy:
    match reason:
        case MergedReason.ONCE:
            return DecidingPolicy("catchup", "once: one run replaces all missed beats", "set catchup: all")
        case MergedReason.CANCEL:
            text = "cancel: a later beat was due before this one could start"
        case MergedReason.CATCHUP_MAX:
            text = f"{policies.catchup_max}: more beats were due at once; only the newest ran"
            return DecidingPolicy("catchup_max", text, "raise catchup_max")
        case MergedReason.RATE_LIMITED:
            return DecidingPolicy("account", "its account was held: merged into the waiting beat")
        case _:
            text = f"{policies.overlap}: merged into the waiting beat"
    return DecidingPolicy("overlap", text, "set overlap: queue_all")


def _explain_skipped(policies: Policies, beat: BeatRecord, budgets: ScheduleBudgets | None) -> DecidingPolicy | None:
    match beat.reason:
        case SkipReason.ALREADY_RUNNING:
            text = f"{policies.overlap}: beats due during an active run are skipped"
            return DecidingPolicy("overlap", text, "set overlap: queue")
        case SkipReason.INACTIVE_HOURS if policies.active_hours is not None:
            text = f"{policies.active_hours} {policies.active_hours.zone.key}: beats outside these hours are skipped"
            return DecidingPolicy("active_hours", text, "set wider active_hours")
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
    places = {BudgetScope.TARGET: " of its target", BudgetScope.FLEET: " at the top of the fleet file"}
    return DecidingPolicy("budget", text, f"raise the budget{places.get(scope, '')}", is_shared=scope in places)


def _explain_expired(policies: Policies, beat: BeatRecord) -> DecidingPolicy | None:
    """`ends_at` if it had passed, else `max_runs`; None if neither was set, as for a removed schedule."""
    bounds, settled_at = policies.bounds, beat.settled_at
    if bounds.ends_at is not None and (settled_at is None or settled_at > bounds.ends_at):
        text = f"{format_timestamp(bounds.ends_at)}: no run starts after this time"
        return DecidingPolicy("ends_at", text, "set a later ends_at")
    if bounds.max_runs is not None:
        return DecidingPolicy("max_runs", f"{bounds.max_runs}: the maximum number of runs is reached", "raise max_runs")
    return None


def _explain_missed(kind: TriggerKind, policies: Policies, reason: str) -> DecidingPolicy:
    if reason == MissedReason.TOO_LATE and policies.max_late is not None:
        limit = format_duration(policies.max_late)
        return DecidingPolicy(
            "max_late", f"{limit}: beats that are later than this do not run", f"set max_late to more than {limit}"
        )
    if policies.catchup is Catchup.ALL:
        text = f"all, limited to the newest {policies.catchup_max} (catchup_max)"
        return DecidingPolicy("catchup", text, "raise catchup_max")
    if kind is TriggerKind.CRON:
        return DecidingPolicy(
            "catchup", "skip: missed beats do not run later (the default for cron)", "set catchup: once"
        )
    return DecidingPolicy("catchup", f"{policies.catchup}: missed beats do not run later", "set catchup: once")
