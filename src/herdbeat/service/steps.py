"""One act on one schedule: what it was, what it is now, or why nothing was done. Toggles may be repeated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from herdbeat.domain.change import Facts
from herdbeat.domain.hint import Hint, Rank
from herdbeat.durations import format_duration
from herdbeat.errors import HerdbeatError
from herdbeat.governor import Pause, ScheduleState
from herdbeat.governor.authority import is_person, may_undo
from herdbeat.governor.effects import effects_of
from herdbeat.governor.wishes import grant
from herdbeat.scheduler import control
from herdbeat.service.acts import Clearing, Disabling, Enabling, Hinting, Pausing, Resuming
from herdbeat.service.objects import moment_or_null
from herdbeat.store.base import Standing, Switch, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`look` says more once the schedule stands as it will. What is not `is_recorded` leaves no row of its own."""

    before: Facts
    after: Facts
    notes: tuple[str, ...] = ()
    refused: str = ""
    mend: str = ""
    is_changed: bool = True
    is_quiet: bool = False
    look: Callable[[datetime, ScheduleState], tuple[str, ...]] | None = field(default=None, repr=False)

    @property
    def is_recorded(self) -> bool:
        return self.is_changed and not self.is_quiet


def pause(tx: Transaction, now: datetime, act: Pausing, standing: Standing) -> Step:
    hold = _hold(now, standing)
    before = _pause_facts(hold)
    if hold is not None and not may_undo(hold.by, act.who):
        return _refused(before, _HUMAN_PAUSE.format(who=hold.by), "Ask that person.")
    if hold is not None and hold.until == act.until and act.reason in ("", hold.reason):
        return _left(before, "already paused")
    wanted = Pause(until=act.until, by=act.who, reason=act.reason)
    control.pause(tx, now, standing.id, wanted)
    return Step(before=before, after=_pause_facts(wanted), notes=_off_note(standing))


def resume(tx: Transaction, now: datetime, act: Resuming, standing: Standing) -> Step:
    hold = _hold(now, standing)
    before = _pause_facts(hold)
    if hold is None:
        return _left(before, "it is not paused")
    if not may_undo(hold.by, act.who):
        return _refused(before, _HUMAN_PAUSE.format(who=hold.by), "Ask that person.")
    control.resume(tx, now, standing.id)
    return Step(before=before, after=_pause_facts(None), notes=_off_note(standing))


def disable(tx: Transaction, now: datetime, act: Disabling, standing: Standing, switch: Switch) -> Step:
    before = _switch_facts(standing.disabled_by, switch)
    if standing.disabled_by is not None:
        return _left(before, f"already disabled by {standing.disabled_by}")
    control.disable(tx, now, standing.id, act.who)
    notes = () if switch.enabled else (f"{_file_off(switch)} already",)
    return Step(before=before, after=_switch_facts(act.who, switch), notes=notes)


def enable(tx: Transaction, now: datetime, act: Enabling, standing: Standing, switch: Switch) -> Step:
    before, by = _switch_facts(standing.disabled_by, switch), standing.disabled_by
    if by is None and not switch.enabled:
        return _refused(before, _file_off(switch), _file_mend(switch))
    if by is not None and not may_undo(by, act.who):
        return _refused(before, f"disabled by {by}: what a person has switched off stays off", "Ask that person.")
    is_done = control.is_done(standing)
    if by is None and not is_done:
        return _left(before, "already enabled")
    control.enable(tx, now, standing.id)
    notes = [] if switch.enabled else [f"still off: {_file_off(switch)}. {_file_mend(switch)}"]
    after = _switch_facts(None, switch)
    if is_done:
        notes.append(f"armed again, as number {standing.arm + 1}")
        before, after = {**before, "arm": standing.arm}, {**after, "arm": standing.arm + 1}
    return Step(before=before, after=after, notes=tuple(notes))


def give_hint(tx: Transaction, now: datetime, act: Hinting, standing: Standing) -> Step:
    granted = grant(now, act.wish)
    hint = granted.hint
    same = next((each for each in standing.hints if each.is_active(now) and _replaces(hint, each)), None)
    before = {} if same is None else _hint_facts(same)
    try:
        control.give_hint(tx, now, standing.id, hint)
    except HerdbeatError as error:
        return _refused(before, error.message, error.hint)
    # A machine that repeats itself every minute would fill the record with the same sentence.
    is_repeated = same is not None and (same.origin, same.every, same.reason) == (hint.origin, hint.every, hint.reason)
    return Step(
        before=before,
        after=_hint_facts(hint),
        notes=granted.notes,
        is_quiet=is_repeated and not is_person(act.who),
        look=partial(_hint_effects, hint),
    )


def clear(tx: Transaction, now: datetime, act: Clearing, standing: Standing) -> Step:
    ranks = [rank for rank in Rank if is_person(act.who) or rank >= _rank(act.who)]
    active = [each for each in standing.hints if each.is_active(now)]
    ended = [each for each in active if each.rank in ranks]
    before: Facts = {"hints": [_hint_facts(each) for each in ended]}
    kept = tuple(f"kept: the hint by {each.origin}, which ranks higher" for each in active if each.rank not in ranks)
    if not ended:
        return _left(before, *(kept or ("there is no hint",)))
    control.clear_hints(tx, now, standing.id, act.who, ranks)
    return Step(before=before, after={"hints": []}, notes=kept)


def reset(tx: Transaction, now: datetime, standing: Standing, switch: Switch) -> Step:
    before: Facts = {"failures": standing.failures, "quarantine": standing.quarantine or standing.unreadable}
    if not standing.failures and before["quarantine"] is None:
        return _left(before, "nothing to reset: no failures, no quarantine")
    control.reset(tx, now, standing.id)
    after = tx.schedules([standing.id])[standing.id]
    still = after.quarantine or after.unreadable
    if still is not None:
        return _refused(before, f"it still cannot be decided: {still}", f"Mend it{_in_file(switch)}.")
    notes = _off_note(standing) + (("it stays paused",) if _hold(now, standing) else ())
    return Step(before=before, after={"failures": 0, "quarantine": None}, notes=notes)


_HUMAN_PAUSE = "paused by {who}: a machine does not change what a person has paused"


def _left(facts: Facts, *notes: str) -> Step:
    return Step(before=facts, after=facts, notes=notes, is_changed=False)


def _refused(facts: Facts, why: str, mend: str) -> Step:
    return Step(before=facts, after=facts, refused=why, mend=mend, is_changed=False)


def _hold(now: datetime, standing: Standing) -> Pause | None:
    return standing.pause if standing.pause is not None and standing.pause.holds(now) else None


def _pause_facts(hold: Pause | None) -> Facts:
    if hold is None:
        return {"paused": False}
    return {"paused": True, "until": moment_or_null(hold.until), "by": hold.by, "reason": hold.reason}


def _switch_facts(disabled_by: str | None, switch: Switch) -> Facts:
    return {"enabled": switch.enabled and disabled_by is None, "in_file": switch.enabled, "disabled_by": disabled_by}


def _hint_facts(hint: Hint) -> Facts:
    return {
        "every": None if hint.every is None else format_duration(hint.every),
        "at": moment_or_null(hint.at),
        "until": moment_or_null(hint.expires_at),
        "by": hint.origin,
        "reason": hint.reason,
    }


def _hint_effects(hint: Hint, now: datetime, state: ScheduleState) -> tuple[str, ...]:
    stored = next((each for each in state.hints if _is_same(each, hint)), None)
    if stored is None:
        return ("it is not kept: there are earlier ones enough",)
    return effects_of(now, stored, state)


def _is_same(one: Hint, other: Hint) -> bool:
    return (one.origin, one.every, one.at, one.reason) == (other.origin, other.every, other.at, other.reason)


def _replaces(new: Hint, old: Hint) -> bool:
    """One pace per rank; a one-shot takes the place of its own twin only."""
    return new.rank is old.rank and new.every is not None and old.every is not None


def _rank(origin: str) -> Rank:
    """Of somebody unknown, the lowest."""
    return Rank.__members__.get(origin.partition(":")[0].upper(), Rank.PLANNER)


def _off_note(standing: Standing) -> tuple[str, ...]:
    if standing.enabled:
        return ()
    return (f"it is disabled ({f'by {standing.disabled_by}' if standing.disabled_by else 'in its file'})",)


def _file_off(switch: Switch) -> str:
    return f"enabled: false{_in_file(switch)}"


def _file_mend(switch: Switch) -> str:
    return f"Write enabled: true{_in_file(switch)}."


def _in_file(switch: Switch) -> str:
    return f" in {switch.origin}" if switch.origin else " in its file"
