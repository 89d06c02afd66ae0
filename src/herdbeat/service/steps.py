"""One act on one schedule: what it was, what it is now, or why nothing was done. Toggles may be repeated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from herdbeat.domain.change import ChangeData
from herdbeat.domain.hint import Hint, Rank
from herdbeat.durations import format_duration
from herdbeat.errors import HerdbeatError
from herdbeat.governor import Pause, ScheduleState
from herdbeat.governor.authority import can_override, is_human
from herdbeat.governor.effects import describe_effects
from herdbeat.governor.wishes import accept_hint
from herdbeat.scheduler import control
from herdbeat.service.acts import (
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    PauseSchedules,
    ResumeSchedules,
)
from herdbeat.service.objects import format_optional_timestamp
from herdbeat.store.base import EnabledInFile, ScheduleSnapshot, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEffect:
    """`look` says more once the schedule stands as it will. What is not `is_recorded` leaves no row of its own."""

    before: ChangeData
    after: ChangeData
    notes: tuple[str, ...] = ()
    refused: str = ""
    fix: str = ""
    is_changed: bool = True
    is_quiet: bool = False
    notes_for_state: Callable[[datetime, ScheduleState], tuple[str, ...]] | None = field(default=None, repr=False)

    @property
    def is_recorded(self) -> bool:
        return self.is_changed and not self.is_quiet


def pause_schedule(
    tx: Transaction, now: datetime, command: PauseSchedules, snapshot: ScheduleSnapshot
) -> CommandEffect:
    active_pause = _find_active_pause(now, snapshot)
    before = _pause_data(active_pause)
    if active_pause is not None and not can_override(active_pause.by, command.who):
        return _refuse(before, _HUMAN_PAUSE_MESSAGE.format(who=active_pause.by), "Ask that person.")
    if active_pause is not None and active_pause.until == command.until and command.reason in ("", active_pause.reason):
        return _unchanged(before, "already paused")
    wanted = Pause(until=command.until, by=command.who, reason=command.reason)
    control.pause(tx, now, snapshot.id, wanted)
    return CommandEffect(before=before, after=_pause_data(wanted), notes=_disabled_note(snapshot))


def resume_schedule(
    tx: Transaction, now: datetime, command: ResumeSchedules, snapshot: ScheduleSnapshot
) -> CommandEffect:
    active_pause = _find_active_pause(now, snapshot)
    before = _pause_data(active_pause)
    if active_pause is None:
        return _unchanged(before, "it is not paused")
    if not can_override(active_pause.by, command.who):
        return _refuse(before, _HUMAN_PAUSE_MESSAGE.format(who=active_pause.by), "Ask that person.")
    control.resume(tx, now, snapshot.id)
    return CommandEffect(before=before, after=_pause_data(None), notes=_disabled_note(snapshot))


def disable_schedule(
    tx: Transaction, now: datetime, command: DisableSchedules, snapshot: ScheduleSnapshot, file_setting: EnabledInFile
) -> CommandEffect:
    before = _enabled_data(snapshot.disabled_by, file_setting)
    if snapshot.disabled_by is not None:
        return _unchanged(before, f"already disabled by {snapshot.disabled_by}")
    control.disable(tx, now, snapshot.id, command.who)
    notes = () if file_setting.enabled else (f"{_describe_disabled_in_file(file_setting)} already",)
    return CommandEffect(before=before, after=_enabled_data(command.who, file_setting), notes=notes)


def enable_schedule(
    tx: Transaction, now: datetime, command: EnableSchedules, snapshot: ScheduleSnapshot, file_setting: EnabledInFile
) -> CommandEffect:
    before, by = _enabled_data(snapshot.disabled_by, file_setting), snapshot.disabled_by
    if by is None and not file_setting.enabled:
        return _refuse(before, _describe_disabled_in_file(file_setting), _suggest_enabling_in_file(file_setting))
    if by is not None and not can_override(by, command.who):
        return _refuse(before, f"disabled by {by}: what a person has switched off stays off", "Ask that person.")
    is_done = control.is_one_shot_done(snapshot)
    if by is None and not is_done:
        return _unchanged(before, "already enabled")
    control.enable(tx, now, snapshot.id)
    notes = (
        []
        if file_setting.enabled
        else [f"still off: {_describe_disabled_in_file(file_setting)}. {_suggest_enabling_in_file(file_setting)}"]
    )
    after = _enabled_data(None, file_setting)
    if is_done:
        notes.append(f"armed again, as number {snapshot.arm + 1}")
        before, after = {**before, "arm": snapshot.arm}, {**after, "arm": snapshot.arm + 1}
    return CommandEffect(before=before, after=after, notes=tuple(notes))


def hint_schedule(tx: Transaction, now: datetime, command: HintSchedules, snapshot: ScheduleSnapshot) -> CommandEffect:
    accepted = accept_hint(now, command.hint_request)
    hint = accepted.hint
    existing = next((each for each in snapshot.hints if each.is_active(now) and _is_replacement(hint, each)), None)
    before = {} if existing is None else _hint_data(existing)
    try:
        control.give_hint(tx, now, snapshot.id, hint)
    except HerdbeatError as error:
        return _refuse(before, error.message, error.hint)
    # A machine that repeats itself every minute would fill the record with the same sentence.
    is_repeated = existing is not None and (existing.origin, existing.every, existing.reason) == (
        hint.origin,
        hint.every,
        hint.reason,
    )
    return CommandEffect(
        before=before,
        after=_hint_data(hint),
        notes=accepted.notes,
        is_quiet=is_repeated and not is_human(command.who),
        notes_for_state=partial(_describe_hint_effects, hint),
    )


def clear_schedule_hints(
    tx: Transaction, now: datetime, command: ClearHints, snapshot: ScheduleSnapshot
) -> CommandEffect:
    ranks = [rank for rank in Rank if is_human(command.who) or rank >= _parse_rank(command.who)]
    active = [each for each in snapshot.hints if each.is_active(now)]
    ended = [each for each in active if each.rank in ranks]
    before: ChangeData = {"hints": [_hint_data(each) for each in ended]}
    kept = tuple(f"kept: the hint by {each.origin}, which ranks higher" for each in active if each.rank not in ranks)
    if not ended:
        return _unchanged(before, *(kept or ("there is no hint",)))
    control.clear_hints(tx, now, snapshot.id, command.who, ranks)
    return CommandEffect(before=before, after={"hints": []}, notes=kept)


def reset_schedule(
    tx: Transaction, now: datetime, snapshot: ScheduleSnapshot, file_setting: EnabledInFile
) -> CommandEffect:
    before: ChangeData = {"failures": snapshot.failures, "quarantine": snapshot.quarantine or snapshot.unreadable}
    if not snapshot.failures and before["quarantine"] is None:
        return _unchanged(before, "nothing to reset: no failures, no quarantine")
    control.reset(tx, now, snapshot.id)
    after = tx.schedules([snapshot.id])[snapshot.id]
    remaining_problem = after.quarantine or after.unreadable
    if remaining_problem is not None:
        return _refuse(
            before, f"it still cannot be decided: {remaining_problem}", f"Mend it{_file_suffix(file_setting)}."
        )
    notes = _disabled_note(snapshot) + (("it stays paused",) if _find_active_pause(now, snapshot) else ())
    return CommandEffect(before=before, after={"failures": 0, "quarantine": None}, notes=notes)


_HUMAN_PAUSE_MESSAGE = "paused by {who}: a machine does not change what a person has paused"


def _unchanged(facts: ChangeData, *notes: str) -> CommandEffect:
    return CommandEffect(before=facts, after=facts, notes=notes, is_changed=False)


def _refuse(facts: ChangeData, why: str, fix: str) -> CommandEffect:
    return CommandEffect(before=facts, after=facts, refused=why, fix=fix, is_changed=False)


def _find_active_pause(now: datetime, snapshot: ScheduleSnapshot) -> Pause | None:
    return snapshot.pause if snapshot.pause is not None and snapshot.pause.is_active(now) else None


def _pause_data(active_pause: Pause | None) -> ChangeData:
    if active_pause is None:
        return {"paused": False}
    return {
        "paused": True,
        "until": format_optional_timestamp(active_pause.until),
        "by": active_pause.by,
        "reason": active_pause.reason,
    }


def _enabled_data(disabled_by: str | None, file_setting: EnabledInFile) -> ChangeData:
    return {
        "enabled": file_setting.enabled and disabled_by is None,
        "in_file": file_setting.enabled,
        "disabled_by": disabled_by,
    }


def _hint_data(hint: Hint) -> ChangeData:
    return {
        "every": None if hint.every is None else format_duration(hint.every),
        "at": format_optional_timestamp(hint.at),
        "until": format_optional_timestamp(hint.expires_at),
        "by": hint.origin,
        "reason": hint.reason,
    }


def _describe_hint_effects(hint: Hint, now: datetime, state: ScheduleState) -> tuple[str, ...]:
    stored = next((each for each in state.hints if _is_same_hint(each, hint)), None)
    if stored is None:
        return ("it is not kept: there are earlier ones enough",)
    return describe_effects(now, stored, state)


def _is_same_hint(one: Hint, other: Hint) -> bool:
    return (one.origin, one.every, one.at, one.reason) == (other.origin, other.every, other.at, other.reason)


def _is_replacement(new: Hint, old: Hint) -> bool:
    """One pace per rank; a one-shot takes the place of its own twin only."""
    return new.rank is old.rank and new.every is not None and old.every is not None


def _parse_rank(origin: str) -> Rank:
    """Of somebody unknown, the lowest."""
    return Rank.__members__.get(origin.partition(":")[0].upper(), Rank.PLANNER)


def _disabled_note(snapshot: ScheduleSnapshot) -> tuple[str, ...]:
    if snapshot.enabled:
        return ()
    return (f"it is disabled ({f'by {snapshot.disabled_by}' if snapshot.disabled_by else 'in its file'})",)


def _describe_disabled_in_file(file_setting: EnabledInFile) -> str:
    return f"enabled: false{_file_suffix(file_setting)}"


def _suggest_enabling_in_file(file_setting: EnabledInFile) -> str:
    return f"Write enabled: true{_file_suffix(file_setting)}."


def _file_suffix(file_setting: EnabledInFile) -> str:
    return f" in {file_setting.origin}" if file_setting.origin else " in its file"
