"""The words for why an instant did not run, which policy said so, and what would change it."""

import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.domain.spend import BudgetScope
from herdbeat.domain.trigger import CalendarTrigger, TriggerKind
from herdbeat.durations import format_duration
from herdbeat.moments import format_timestamp
from herdbeat.scheduler.budget import ScheduleBudgets
from herdbeat.service.gates import describe_usage, find_tightest_limit

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
