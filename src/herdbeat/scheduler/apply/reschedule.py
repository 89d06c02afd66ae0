"""The next run of a schedule whose plan is replaced: what it keeps of its old time, and what is decided again."""

from datetime import datetime

from herdbeat.domain.schedule import Schedule
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.trigger import IntervalAnchor, TriggerKind
from herdbeat.governor import ScheduleState, decide
from herdbeat.governor.state import decision_to_text
from herdbeat.rules.rule import name_rules
from herdbeat.scheduler.apply.settle import has_calendar_changed
from herdbeat.scheduler.evaluate import governor_state, is_due, is_in_flight
from herdbeat.store.base import CounterCheck, NextRunColumns, ScheduleSnapshot


def replace_spec(before: ScheduleSnapshot, schedule: Schedule) -> ScheduleSnapshot:
    """Return the schedule with the plan and the switch of the files, and without what its old plan has left: its
    failures, and the hints of rules that are gone.
    """
    plan = build_spec(schedule)
    is_enabled = schedule.enabled and before.disabled_by is None
    gone = find_removed_rules(before, plan)
    hints = tuple(hint for hint in before.hints if hint.origin not in gone)
    snapshot = before._replace(plan=plan, enabled=is_enabled, quarantine=None, unreadable=None, failures=0, hints=hints)
    return snapshot._replace(is_new=True) if is_rearmed(before, snapshot) else snapshot


def find_removed_rules(before: ScheduleSnapshot, plan: ScheduleSpec) -> set[str]:
    """Return the origins of the hints of rules that an edit removes."""
    old = readable_spec(before)
    if old is None or not old.policies.adapt:
        return set()
    return {f"rule:{name}" for name in {*name_rules(old.policies.adapt)} - {*name_rules(plan.policies.adapt)}}


def is_rearmed(before: ScheduleSnapshot, snapshot: ScheduleSnapshot) -> bool:
    """Whether an edit arms a one-shot again: by another time, or by enabling it again."""
    if has_run_at_changed(readable_spec(before), snapshot.plan):
        return True
    is_done = snapshot.plan.trigger.kind is TriggerKind.DELAY and not before.is_new
    return is_done and snapshot.enabled and not before.enabled


def build_spec(schedule: Schedule) -> ScheduleSpec:
    return ScheduleSpec(trigger=schedule.trigger, policies=schedule.policies)


def reschedule_edited(
    now: datetime, before: ScheduleSnapshot, snapshot: ScheduleSnapshot, tally: CounterCheck
) -> NextRunColumns:
    """Return the next run of an edited schedule. `snapshot` is `before` with the new plan."""
    is_enabled = snapshot.enabled and before.enabled and before.unreadable is None
    is_settled_first = is_enabled and is_due(now, before) and has_calendar_changed(before.plan, snapshot.plan)
    if is_enabled and not is_settled_first and is_in_flight(now, before):
        # Due, and not yet claimed: that beat comes first, and its claim decides by the new plan.
        return _keep_next_run(before)
    # By another calendar the claim would count instants that never were: so what is due was settled, and is pending.
    tally = tally._replace(open=tally.open + int(is_settled_first))
    next_run = decide_next_run(now, governor_state(snapshot))
    if _has_open_beat(snapshot, tally):
        # Decided now, it would be due beside its open beat, under the same dedup id. The completion decides.
        return next_run._replace(next_run_at=None, next_due_at=None, wake_at=None)
    return next_run


def readable_spec(snapshot: ScheduleSnapshot) -> ScheduleSpec | None:
    """Return its stored plan; None if that could not be read."""
    return snapshot.plan if snapshot.unreadable is None else None


def has_run_at_changed(old: ScheduleSpec | None, new: ScheduleSpec) -> bool:
    """True if a one-shot has another time, which arms it again."""
    if old is None or TriggerKind.DELAY not in (old.trigger.kind, new.trigger.kind):
        return False
    return old.trigger.options().get("run_at") != new.trigger.options().get("run_at")


def _keep_next_run(snapshot: ScheduleSnapshot) -> NextRunColumns:
    assert snapshot.next_source is not None
    due_at, source, origin = snapshot.next_due_at, snapshot.next_source, snapshot.next_origin
    return NextRunColumns(snapshot.next_run_at, due_at, source, origin, None, snapshot.wake_at)


def _has_open_beat(snapshot: ScheduleSnapshot, tally: CounterCheck) -> bool:
    """Counted from the end of runs, an interval has no next time while a beat of its own is open."""
    is_running = tally.running > 0 and snapshot.next_run_at is None
    return snapshot.plan.trigger.anchor is IntervalAnchor.END and (tally.open > 0 or is_running)


def decide_next_run(now: datetime, state: ScheduleState) -> NextRunColumns:
    decision = decide(now, state)
    trace = decision_to_text(decision)
    return NextRunColumns(
        decision.next_run_at, decision.due_at, decision.source, decision.origin, trace, decision.wake_at
    )
