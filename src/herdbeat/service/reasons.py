"""The words for why an instant did not run, which policy said so, and what would change it."""

import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.domain.spend import Scope
from herdbeat.domain.trigger import Calendar, TriggerKind
from herdbeat.durations import format_duration
from herdbeat.moments import format_moment
from herdbeat.scheduler.budget import Wallet
from herdbeat.service.gates import tightest, used_words

_TICK = timedelta(microseconds=1)

CAUSES = {
    MissedReason.SCHEDULER_DOWN: "nothing was running here",
    MissedReason.SLEPT: "this machine slept",
    MissedReason.CLOCK_JUMPED: "the clock was moved",
    MissedReason.TOO_LATE: "it came too late",
    MissedReason.RESTORED: "the ledger was restored from a backup",
}

_SKIPS = {
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
class Rule:
    """A policy that had a say: its key, what it did, and what to write to change that (empty: nothing).

    `is_shared` says that it is not written with the schedule.
    """

    key: str
    text: str
    fix: str = ""
    is_shared: bool = False


def is_passed_over(record: ScheduleRecord, at: datetime, now: datetime) -> bool:
    """An instant of the calendar since its last beat, outside its active hours, which has no row yet."""
    trigger, hours = record.plan.trigger, record.plan.policies.active_hours
    if hours is None or hours.contains(at) or not record.anchor_at < at <= now:
        return False
    return isinstance(trigger, Calendar) and trigger.latest(at - _TICK, at) == at


def skip_words(reason: str) -> str:
    return _SKIPS.get(SkipReason(reason), reason) if reason in set(SkipReason) else reason


def rule_of(record: ScheduleRecord, beat: BeatRecord, wallet: Wallet | None = None) -> Rule | None:
    """The policy that decided the fate of a beat; None if none did. `wallet` is what its day had left."""
    policies = record.plan.policies
    if beat.outcome is BeatOutcome.MISSED:
        return _of_missed(record.plan.trigger.kind, policies, beat.reason)
    if beat.outcome is BeatOutcome.MERGED:
        if beat.reason == Catchup.ONCE:
            return Rule("catchup", "once: one run stands for everything that was missed", "catchup: all")
        return Rule("overlap", f"{policies.overlap}: the beat that was waiting stands for it", "overlap: queue_all")
    return _of_skipped(policies, beat, wallet) if beat.outcome is BeatOutcome.SKIPPED else None


def _of_skipped(policies: Policies, beat: BeatRecord, wallet: Wallet | None) -> Rule | None:
    match beat.reason:
        case SkipReason.ALREADY_RUNNING:
            return Rule("overlap", f"{policies.overlap}: a beat that meets an earlier run is skipped", "overlap: queue")
        case SkipReason.INACTIVE_HOURS if policies.active_hours is not None:
            text = f"{policies.active_hours} {policies.active_hours.zone.key}: nothing runs outside"
            return Rule("active_hours", text, "active_hours: wider")
        case SkipReason.BUDGET_EXCEEDED if wallet is not None:
            return _of_budget(policies, wallet)
        case SkipReason.PRECHECK if policies.precheck:
            return Rule("precheck", f"{shlex.join(policies.precheck)} exited with 1")
        case SkipReason.EXPIRED:
            return _of_expired(policies, beat)
        case SkipReason.TARGET_OFFLINE if policies.runs_on is not None:
            text = f"{policies.runs_on}: only nodes with this label run it (herdbeat up --label {policies.runs_on})"
            return Rule("runs_on", text)
        case _:
            return None


def _of_budget(policies: Policies, wallet: Wallet) -> Rule:
    scope, limit = tightest(wallet)
    text = f"{used_words(scope, limit)}, on {wallet.purses[0].account.day} {policies.zone.key}"
    fix = {Scope.TARGET: "budget: more beside its target", Scope.FLEET: "budget: more at the top of the fleet file"}
    return Rule("budget", text, fix.get(scope, "budget: more"), is_shared=scope is not Scope.SCHEDULE)


def _of_expired(policies: Policies, beat: BeatRecord) -> Rule | None:
    """`max_runs` if the end was not there yet; nothing if neither was set, as for a schedule that was removed."""
    bounds, settled_at = policies.bounds, beat.settled_at
    if bounds.ends_at is not None and (settled_at is None or settled_at > bounds.ends_at):
        return Rule("ends_at", f"{format_moment(bounds.ends_at)}: nothing starts after it", "a later ends_at")
    if bounds.max_runs is not None:
        return Rule("max_runs", f"{bounds.max_runs}: it has had them, or they are going on", "max_runs: more")
    return None


def _of_missed(kind: TriggerKind, policies: Policies, reason: str) -> Rule:
    if reason == MissedReason.TOO_LATE and policies.max_late is not None:
        limit = format_duration(policies.max_late)
        return Rule("max_late", f"{limit}: what is older is never run", f"max_late: longer than {limit}")
    if policies.catchup is Catchup.ALL:
        return Rule("catchup", f"all, but the newest {policies.catchup_max} only (catchup_max)", "catchup_max: more")
    if kind is TriggerKind.CRON:
        return Rule("catchup", "skip: cron schedules are not caught up unless you ask", "catchup: once")
    return Rule("catchup", f"{policies.catchup}: what was missed is not run later", "catchup: once")
