"""When a schedule is due next after its plan was replaced: what it keeps of its old time, and what is decided again."""

from datetime import datetime

from herdbeat.domain.plan import Plan
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.trigger import TriggerKind
from herdbeat.governor import ScheduleState, decide
from herdbeat.scheduler.handover import is_another_calendar
from herdbeat.scheduler.judge import is_due, is_reached, state_of
from herdbeat.scheduler.verdict import trace_of
from herdbeat.store.base import Standing, Tally, Timed


def replanned(before: Standing, schedule: Schedule) -> Standing:
    """How a schedule would stand with what is written of it now."""
    plan = plan_of(schedule)
    is_on = schedule.enabled and before.disabled_by is None
    standing = before._replace(plan=plan, enabled=is_on, quarantine=None, unreadable=None)
    # A one-shot with another time is another one-shot, also if the first has fired.
    return standing._replace(is_new=True) if is_another_moment(readable_plan(before), plan) else standing


def plan_of(schedule: Schedule) -> Plan:
    return Plan(trigger=schedule.trigger, policies=schedule.policies)


def edited_time(now: datetime, before: Standing, standing: Standing, tally: Tally) -> Timed:
    """When an edited schedule is due next. `before` is how it stood, `standing` the same with its new plan."""
    is_on = standing.enabled and before.enabled and before.unreadable is None
    is_left = is_on and is_due(now, before) and is_another_calendar(before.plan, standing.plan)
    if is_on and not is_left and is_reached(now, before):
        # Due, and not yet claimed: that beat comes first, and its claim decides by the new plan.
        return _kept(before)
    # By another calendar the claim would count instants that never were: what is due is settled first, and waits.
    tally = tally._replace(open=tally.open + int(is_left))
    timed = time_of(now, state_of(standing))
    if _is_at_it(standing, tally):
        # Decided now, it would be due beside the beat it is at, and under the same id. Its finish decides.
        return timed._replace(next_run_at=None, next_due_at=None, wake_at=None)
    return timed


def readable_plan(standing: Standing) -> Plan | None:
    """The plan it had; None for one that could not be read."""
    return standing.plan if standing.unreadable is None else None


def is_another_moment(old: Plan | None, new: Plan) -> bool:
    """Whether a one-shot has another time, which arms it anew."""
    if old is None or TriggerKind.DELAY not in (old.trigger.kind, new.trigger.kind):
        return False
    return old.trigger.options().get("run_at") != new.trigger.options().get("run_at")


def _kept(standing: Standing) -> Timed:
    assert standing.next_source is not None
    return Timed(
        next_run_at=standing.next_run_at,
        next_due_at=standing.next_due_at,
        next_source=standing.next_source,
        next_origin=standing.next_origin,
        next_trace=None,
        wake_at=standing.wake_at,
    )


def _is_at_it(standing: Standing, tally: Tally) -> bool:
    """An interval has no next time while one of its own beats is running, waiting, or to be retried."""
    is_running = tally.running > 0 and standing.next_run_at is None
    return standing.plan.trigger.pace is not None and (tally.open > 0 or is_running)


def time_of(now: datetime, state: ScheduleState) -> Timed:
    decision = decide(now, state)
    return Timed(
        next_run_at=decision.next_run_at,
        next_due_at=decision.due_at,
        next_source=decision.source,
        next_origin=decision.origin,
        next_trace=trace_of(decision),
        wake_at=decision.wake_at,
    )
