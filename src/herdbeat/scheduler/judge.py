"""What becomes of a schedule whose time has come: which beats are written, which start, and when it is due next.

Pure but for the places it takes: everything it needs is handed in, everything it decides is in the verdict.
"""

from dataclasses import replace
from datetime import datetime

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Overlap
from herdbeat.domain.trigger import Calendar
from herdbeat.errors import SchedulerError
from herdbeat.governor import ScheduleState, decide
from herdbeat.scheduler.account import Fate, account
from herdbeat.scheduler.gates import Arrival, Held, held_by, over_at
from herdbeat.scheduler.hours import accounted_until, passed_over
from herdbeat.scheduler.instants import Instants, newest, passed
from herdbeat.scheduler.overlap import Meeting, meet
from herdbeat.scheduler.skip import USES_THE_WISH, let_pass
from herdbeat.scheduler.verdict import GROWS, Bench, Verdict
from herdbeat.store.base import GrownBeat, NewBeat, Standing


def judge(bench: Bench, standing: Standing) -> Verdict:
    """Raises whatever is wrong with the schedule: the caller contains it."""
    if standing.unreadable is not None:
        raise SchedulerError(standing.unreadable)
    verdict = Verdict(standing)
    if standing.plan.policies.active_hours is not None:
        write_off_outside(bench, verdict)
    if not is_due(bench.now, standing):
        if is_reached(bench.now, standing):
            # A hint has ended between its instant and its jittered start: decided anew, that instant were lost.
            verdict.stays = True
            return verdict
        if standing.next_source is Source.PAUSED:
            over_at = _over_at(bench.now, standing)
            write_off_passed(bench, verdict, SkipReason.PAUSED, over_at)
            # Decided as of its end: instants after it are late or missed, and no longer the pause's.
            verdict.decision = decide(over_at, state_of(standing))
        else:
            verdict.decision = decide(bench.now, state_of(standing))
        return verdict
    fates = _fates(bench, standing)
    if standing.skips:
        fates = let_pass(standing.plan.trigger, fates, standing.skips)
    for fate in fates:
        if fate.outcome is BeatOutcome.PENDING:
            _arrive(bench, verdict, fate)
        else:
            _write_off(bench, verdict, fate)
    _go_on(bench, verdict)
    return verdict


def is_due(now: datetime, standing: Standing) -> bool:
    """A time that was reached. The end of a pause or of a hint is only a reason to decide again."""
    return (
        standing.next_run_at is not None
        and standing.next_due_at is not None
        and standing.next_run_at <= now
        and standing.next_source is not Source.PAUSED
    )


def is_reached(now: datetime, standing: Standing) -> bool:
    """Due, or on its way between its nominal instant and its jitter: deciding it anew would lose that instant."""
    if standing.next_due_at is None or standing.next_run_at is None or standing.next_source is Source.PAUSED:
        return False
    return standing.next_run_at <= now or (standing.plan.trigger.pace is None and standing.next_due_at <= now)


def is_let_go(now: datetime, standing: Standing) -> bool:
    """Its pause is over, and no turn has looked at it since: deciding it anew would forget what passed meanwhile."""
    return standing.next_source is Source.PAUSED and standing.wake_at is not None and standing.wake_at <= now


def _over_at(now: datetime, standing: Standing) -> datetime:
    """Until when instants of a calendar were the pause's. A pace has none meanwhile, and goes on from now."""
    pause = standing.pause
    if pause is None or pause.until is None or not isinstance(standing.plan.trigger, Calendar):
        return now
    return min(now, max(pause.until, standing.settled_until))


def state_of(standing: Standing) -> ScheduleState:
    return ScheduleState(
        schedule=standing.label,
        timing=standing.plan.timing,
        anchor_at=standing.anchor_at,
        is_new=standing.is_new,
        failures=standing.failures,
        runs=standing.runs,
        hints=standing.hints,
        pause=standing.pause,
        enabled=standing.enabled,
    )


def _fates(bench: Bench, standing: Standing) -> list[Fate]:
    run_at, due_at = standing.next_run_at, standing.next_due_at
    assert run_at is not None
    assert due_at is not None
    plan = standing.plan
    is_just_late = bench.now - run_at <= plan.policies.grace and plan.policies.max_late is None
    if plan.trigger.pace is not None and is_just_late:
        return [Fate(Instants.one(due_at), BeatOutcome.PENDING)]  # the way of nearly every beat
    # Lateness counts from the jittered time, so the clock that judges is put back by the jitter.
    shift = run_at - due_at
    gaps = [replace(gap, from_at=gap.from_at - shift, until=gap.until - shift) for gap in bench.gaps]
    return account(bench.now - shift, due_at, plan.trigger, plan.policies, gaps)


def write_off_passed(bench: Bench, verdict: Verdict, reason: SkipReason, until: datetime | None = None) -> None:
    """Instants of a calendar that passed while nobody was to run them: one row, and the mark moves on.

    Up to now, or as long as it was held.
    """
    until = until or bench.now
    standing = verdict.standing
    trigger = standing.plan.trigger
    if not isinstance(trigger, Calendar):
        return  # a pace has no instants of its own while it stands still
    first = trigger.next_time(None, standing.settled_until)
    if first is not None and first <= until:
        _write_off(bench, verdict, Fate(passed(trigger, first, until), BeatOutcome.SKIPPED, reason))
    verdict.settled_until = until


def write_off_outside(bench: Bench, verdict: Verdict) -> None:
    """Instants outside the active hours, which the governor has passed over: a whole night is one row."""
    standing = verdict.standing
    if standing.next_source is Source.PAUSED:
        return  # what passed meanwhile belongs to the pause
    instants = passed_over(standing, bench.now)
    if instants is not None:
        source = standing.plan.trigger.kind.source
        _write_off(bench, verdict, Fate(instants, BeatOutcome.SKIPPED, SkipReason.INACTIVE_HOURS, source))
    verdict.settled_until = accounted_until(standing, bench.now)


def write_off_due(bench: Bench, verdict: Verdict, reason: SkipReason) -> None:
    """What is due and not yet claimed, when somebody says no at that very moment."""
    standing = verdict.standing
    if not is_due(bench.now, standing) or standing.next_due_at is None:
        return
    instants = passed(standing.plan.trigger, standing.next_due_at, bench.now)
    _write_off(bench, verdict, Fate(instants, BeatOutcome.SKIPPED, reason))
    verdict.settled_until = verdict.anchor_at = bench.now


def _write_off(bench: Bench, verdict: Verdict, fate: Fate) -> None:
    """Instants that do not run, as one row; they grow the row before if it says the same."""
    standing, instants = verdict.standing, fate.instants
    if standing.skips and fate.reason in USES_THE_WISH:
        verdict.let_pass = min(standing.skips, verdict.let_pass + instants.count)
    says_the_same = _tail_of(verdict) == f"{fate.outcome}:{fate.reason}"
    if says_the_same and verdict.beats:
        before = verdict.beats[-1]
        verdict.beats[-1] = before._replace(number=before.number + instants.count, last_due_at=instants.last)
    elif says_the_same and standing.tail_id is not None:
        # One row for all: two changes of one row in one statement, and only one of them would count.
        more = instants.count + (verdict.grown.pop().more if verdict.grown else 0)
        verdict.grown.append(GrownBeat(standing.tail_id, more, instants.last))
    else:
        verdict.beats.append(_beat(bench, standing, instants, fate.outcome, fate.reason, fate.source))


def _tail_of(verdict: Verdict) -> str | None:
    """Outcome and reason of the row that the next one could be part of."""
    if not verdict.beats:
        return verdict.standing.tail
    last = verdict.beats[-1]
    return f"{last.outcome}:{last.reason}" if last.outcome in GROWS else None


def _arrive(bench: Bench, verdict: Verdict, fate: Fate) -> None:
    """Instants that may run: the first now, later ones as if they came while it is there.

    What is caught up waits for its place in the pace first, and meets others when it is taken up. That place is given
    when the verdict is written: the pace is the fleet's, and others may be catching up at the same time.
    """
    if fate.source is Source.CATCH_UP:
        _park(bench, verdict, fate.instants, fate.source, Source.CATCH_UP, bench.now)
        verdict.catching_up += 1
        return
    first, later = _first_and_later(verdict.standing, fate.instants)
    _meet(bench, verdict, Instants.one(first), fate.source)
    for instants in later:
        _meet(bench, verdict, instants, fate.source)


def _first_and_later(standing: Standing, instants: Instants) -> tuple[datetime, list[Instants]]:
    if instants.count == 1:
        return instants.first, []
    trigger, policies = standing.plan.trigger, standing.plan.policies
    following = trigger.next_time(None, instants.first)
    assert following is not None
    rest = Instants(following, instants.last, instants.count - 1)
    if policies.overlap not in (Overlap.ALLOW, Overlap.QUEUE_ALL):
        return instants.first, [rest]
    older, listed = newest(trigger, rest, policies.catchup_max)
    return instants.first, [*([older] if older else []), *(Instants.one(each) for each in listed)]


def _meet(bench: Bench, verdict: Verdict, instants: Instants, source: Source | None) -> None:
    standing = verdict.standing
    meeting = meet(
        standing.plan.policies.overlap,
        running=standing.running + len(verdict.starts) > 0,
        # What is caught up waits for its pace, not for room: it absorbs nothing. While a node lives, an instant runs.
        waiting=standing.waiting + verdict.parked > verdict.catching_up + bench.paced.get(standing.id, 0),
    )
    if standing.plan.is_gated or standing.id in bench.rooms.wallets:
        held = held_by(_arrival(bench, verdict, instants, source, is_free=meeting is Meeting.START))
        if held is not None:
            _hold(bench, verdict, instants, source, held)
            return
    match meeting:
        case Meeting.SKIP:
            _write_off(bench, verdict, Fate(instants, BeatOutcome.SKIPPED, SkipReason.ALREADY_RUNNING, source))
        case Meeting.MERGE:
            # What the one waits for that absorbs it: its own run, or room at the target.
            is_at_it = standing.running + len(verdict.starts) > 0
            reason = SkipReason.ALREADY_RUNNING if is_at_it else SkipReason.AT_CAPACITY
            _write_off(bench, verdict, Fate(instants, BeatOutcome.MERGED, reason, source))
        case Meeting.START:
            if bench.rooms.take(standing.target_id):
                bench.rooms.spend(standing.id)
                verdict.starts.append(len(verdict.beats))
                verdict.beats.append(_beat(bench, standing, instants, BeatOutcome.RUNNING, "", source))
            else:
                wake_at = bench.now if bench.rooms.node_is_full else None
                _park(bench, verdict, instants, source, SkipReason.AT_CAPACITY, wake_at)
        case Meeting.WAIT | Meeting.REPLACE:
            verdict.cancels |= meeting is Meeting.REPLACE
            _park(bench, verdict, instants, source, SkipReason.ALREADY_RUNNING)


def _arrival(bench: Bench, verdict: Verdict, instants: Instants, source: Source | None, *, is_free: bool) -> Arrival:
    standing = verdict.standing
    due_at = standing.next_due_at or instants.first
    return Arrival(
        now=bench.now,
        due_at=instants.first,
        run_at=instants.first + ((standing.next_run_at or due_at) - due_at),
        source=source or standing.next_source or standing.plan.trigger.kind.source,
        standing=standing,
        begun=len(verdict.starts),
        is_free=is_free,
        rooms=bench.rooms,
    )


def _hold(bench: Bench, verdict: Verdict, instants: Instants, source: Source | None, held: Held) -> None:
    if held.until is None:
        _write_off(bench, verdict, Fate(instants, BeatOutcome.SKIPPED, held.reason, source))
    else:
        _park(bench, verdict, instants, source, held.reason, held.until)


def _park(
    bench: Bench,
    verdict: Verdict,
    instants: Instants,
    source: Source | None,
    reason: str,
    wake_at: datetime | None = None,
) -> None:
    """One row that waits, however long; what comes with it is merged into it."""
    standing = verdict.standing
    verdict.parked += 1
    beat = _beat(bench, standing, instants, BeatOutcome.PENDING, reason, source)
    verdict.beats.append(beat._replace(wake_at=wake_at or over_at(standing.plan.policies, instants.first)))


def _beat(
    bench: Bench, standing: Standing, instants: Instants, outcome: BeatOutcome, reason: str, source: Source | None
) -> NewBeat:
    trigger = standing.plan.trigger
    return NewBeat(
        schedule_id=standing.id,
        target_id=standing.target_id,
        dedup_id=trigger.dedup_id(instants.first, standing.label),
        due_at=instants.first,
        last_due_at=instants.last,
        number=instants.count,
        outcome=outcome,
        reason=reason,
        source=source or standing.next_source or trigger.kind.source,
        origin=standing.next_origin,
        priority=standing.plan.policies.priority,
        created_at=bench.now,
        settled_at=bench.now if outcome in GROWS else None,
    )


def _go_on(bench: Bench, verdict: Verdict) -> None:
    """When next: an interval after its run, a calendar after the instants just settled."""
    standing = verdict.standing
    verdict.settled_until = accounted_until(standing, bench.now)
    at_it = bool(verdict.starts or verdict.parked)
    if at_it and verdict.is_paced:
        return
    verdict.anchor_at = standing.anchor_at if at_it else bench.now
    last = verdict.last_due_at or bench.now
    left = tuple(hint for hint in standing.hints if hint.at is None or hint.at > last)
    state = replace(state_of(standing), anchor_at=verdict.anchor_at, is_new=False, hints=left)
    verdict.decision = decide(min(last, bench.now) if standing.plan.trigger.pace is None else bench.now, state)
