"""The words for why an instant did not run, which policy said so, and what would change it."""

from dataclasses import dataclass

from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.records import BeatRecord, ScheduleRecord
from herdbeat.domain.trigger import TriggerKind
from herdbeat.durations import format_duration

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
    """A policy that had a say: its key, what it did, and what to write to change that (empty: nothing)."""

    key: str
    text: str
    fix: str = ""


def skip_words(reason: str) -> str:
    return _SKIPS.get(SkipReason(reason), reason) if reason in set(SkipReason) else reason


def rule_of(record: ScheduleRecord, beat: BeatRecord) -> Rule | None:
    """The policy that decided the fate of a beat; None if none did."""
    policies = record.plan.policies
    if beat.outcome is BeatOutcome.MISSED:
        return _of_missed(record.plan.trigger.kind, policies, beat.reason)
    if beat.outcome is BeatOutcome.MERGED:
        if beat.reason == Catchup.ONCE:
            return Rule("catchup", "once: one run stands for everything that was missed", "catchup: all")
        return Rule("overlap", f"{policies.overlap}: the beat that was waiting stands for it", "overlap: queue_all")
    if beat.reason == SkipReason.ALREADY_RUNNING:
        return Rule("overlap", f"{policies.overlap}: a beat that meets an earlier run is skipped", "overlap: queue")
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
