"""Commands on schedules: pause, resume, disable, enable, hint, clear hints, reset, skip. Each may be repeated.

Every change writes its row into the `change` table, in the transaction that makes it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.hint import Hint, Rank
from herdbeat.durations import format_duration
from herdbeat.errors import HerdbeatError, UsageError
from herdbeat.events import SchedulesChanged
from herdbeat.governor import Pause, ScheduleState
from herdbeat.governor.hints import (
    HintRequest,
    accept_hint,
    can_override,
    can_replace_pause,
    describe_effects,
    find_effect,
    is_human,
)
from herdbeat.scheduler import control
from herdbeat.scheduler.evaluate import governor_state
from herdbeat.service.commands.base import (
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    HoldCommand,
    PauseSchedules,
    RecordState,
    ResetSchedules,
    RestoreHints,
    ResumeSchedules,
    ScheduleChange,
    ScheduleChanges,
    ScheduleCommand,
    SkipBeats,
)
from herdbeat.service.commands.dispatch import Environment, StopOrder
from herdbeat.store.base import EnabledInFile, ScheduleSnapshot, Transaction
from herdbeat.timestamps import format_optional_timestamp, format_timestamp

MAX_SKIPPED_BEATS = 1_000
"""More than that is a pause."""

_HUMAN_PAUSE_MESSAGE = "paused by {who}: only a person can change this pause"
_EXPLAIN_HINT = "Show why: herdbeat explain NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEffect:
    """What a command did to one schedule. One that `is_quiet` leaves no row in the change log.

    `notes_for_state` and `facts_for_state` add notes and facts once the schedule has its new state. Those facts are in
    the answer, not in the change log.
    """

    before: ChangeData
    after: ChangeData
    notes: tuple[str, ...] = ()
    refused: str = ""
    hint: str = ""
    is_changed: bool = True
    is_quiet: bool = False
    notes_for_state: Callable[[datetime, ScheduleState], tuple[str, ...]] | None = field(default=None, repr=False)
    facts_for_state: Callable[[datetime, ScheduleState], ChangeData] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Subject:
    """One schedule of a command: its state in the ledger, and what its file says."""

    snapshot: ScheduleSnapshot
    in_file: EnabledInFile


def change_schedules(
    tx: Transaction, now: datetime, who: str, command: ScheduleCommand, environment: Environment
) -> ScheduleChanges:
    """Apply the command to each schedule. Schedules removed meanwhile are left out.

    Raises UsageError for a command that makes no sense.
    """
    _validate_command(now, command)
    in_files = tx.schedule_get_enabled(command.schedules)
    before = tx.schedules(in_files)
    effect_of = _EFFECTS[type(command)]
    effects = {
        key: effect_of(tx, now, who, command, Subject(before[key], in_file)) for key, in_file in in_files.items()
    }
    after = tx.schedules(in_files)
    changes = [
        _build_change(now, who, command, before[key].label, effect)
        for key, effect in effects.items()
        if effect.is_changed and not effect.is_quiet
    ]
    tx.add_changes(changes)
    items = [_build_result(now, effects[key], after[key], in_file) for key, in_file in in_files.items()]
    result = ScheduleChanges(items=tuple(items))
    if changed := tuple(change.schedule for change in result.changed):
        environment.events.append(SchedulesChanged(now, command.what, who, command.reason, changed))
    if isinstance(command, HoldCommand) and command.cancel_running:
        reason = f"cancelled by {who} ({command.what})"
        environment.stop(tx, StopOrder(reason=reason, schedules=command.schedules))
    return result


def _validate_command(now: datetime, command: ScheduleCommand) -> None:
    if isinstance(command, SkipBeats) and not 0 <= command.count <= MAX_SKIPPED_BEATS:
        raise UsageError(
            f"{command.count} beats cannot be skipped.", hint=f"Use 1 to {MAX_SKIPPED_BEATS}, or use herdbeat pause."
        )
    if not isinstance(command, PauseSchedules) or command.until is None:
        return
    if command.until.tzinfo is None:
        raise UsageError("The end of the pause has no UTC offset.", hint="Write for example 2026-04-01T18:00:00Z.")
    if command.until <= now:
        raise UsageError(
            "The end of the pause is in the past.", hint="Use a time in the future, or a duration: --for 2h."
        )


def _build_change(now: datetime, who: str, command: ScheduleCommand, subject: str, effect: CommandEffect) -> Change:
    after = {**effect.after, "reason": command.reason} if command.reason else effect.after
    return Change(at=now, who=who, what=command.what, subject=subject, before=effect.before, after=after)


def _build_result(
    now: datetime, effect: CommandEffect, after: ScheduleSnapshot, in_file: EnabledInFile
) -> ScheduleChange:
    more_notes = effect.notes_for_state(now, governor_state(after)) if effect.notes_for_state else ()
    more_facts = effect.facts_for_state(now, governor_state(after)) if effect.facts_for_state else {}
    return ScheduleChange(
        schedule=in_file.label,
        changed=effect.is_changed,
        before=effect.before,
        after={**effect.after, **more_facts},
        next_run_at=after.next_run_at,
        source=after.next_source,
        running=after.running,
        notes=(*effect.notes, *more_notes),
        refused=effect.refused,
        hint=effect.hint,
    )


def _pause(tx: Transaction, now: datetime, who: str, command: PauseSchedules, subject: Subject) -> CommandEffect:
    snapshot = subject.snapshot
    active_pause = _find_active_pause(now, snapshot)
    before = _build_pause_data(active_pause)
    if active_pause is not None and not can_override(active_pause.by, who):
        return _refuse(before, _HUMAN_PAUSE_MESSAGE.format(who=active_pause.by), "Ask that person to change it.")
    if active_pause is not None and active_pause.until == command.until and command.reason in ("", active_pause.reason):
        return _build_unchanged(before, "already paused")
    wanted = Pause(until=command.until, by=who, reason=command.reason)
    if active_pause is not None and not can_replace_pause(active_pause, wanted):
        return _refuse(before, f"paused by {active_pause.by} for longer", "A person can change this pause.")
    control.pause(tx, now, snapshot.id, wanted)
    return CommandEffect(before=before, after=_build_pause_data(wanted), notes=_note_disabled(snapshot))


def _resume(tx: Transaction, now: datetime, who: str, command: ResumeSchedules, subject: Subject) -> CommandEffect:  # noqa: ARG001 - as all effects
    snapshot = subject.snapshot
    active_pause = snapshot.pause_at(now)
    before = _build_pause_data(active_pause)
    if active_pause is None:
        return _build_unchanged(before, "not paused")
    if not can_override(active_pause.by, who):
        return _refuse(before, _HUMAN_PAUSE_MESSAGE.format(who=active_pause.by), "Ask that person to change it.")
    control.resume(tx, now, snapshot.id)
    return CommandEffect(before=before, after=_build_pause_data(None), notes=_note_disabled(snapshot))


def _disable(tx: Transaction, now: datetime, who: str, command: DisableSchedules, subject: Subject) -> CommandEffect:  # noqa: ARG001
    disabled_by, in_file = subject.snapshot.disabled_by, subject.in_file
    before = _build_enabled_data(disabled_by, in_file)
    if disabled_by is not None:
        return _build_unchanged(before, f"already disabled by {disabled_by}")
    control.disable(tx, now, subject.snapshot.id, who)
    notes = () if in_file.enabled else (f"also {_describe_disabled_in_file(in_file)}",)
    return CommandEffect(before=before, after=_build_enabled_data(who, in_file), notes=notes)


def _enable(tx: Transaction, now: datetime, who: str, command: EnableSchedules, subject: Subject) -> CommandEffect:  # noqa: ARG001
    snapshot, in_file = subject.snapshot, subject.in_file
    before, by = _build_enabled_data(snapshot.disabled_by, in_file), snapshot.disabled_by
    if by is None and not in_file.enabled:
        return _refuse(before, _describe_disabled_in_file(in_file), _suggest_enabling_in_file(in_file))
    if by is not None and not can_override(by, who):
        return _refuse(before, f"disabled by {by}: only a person can enable it", "Ask that person to change it.")
    is_done = control.is_one_shot_done(snapshot)
    if by is None and not is_done:
        return _build_unchanged(before, "already enabled")
    control.enable(tx, now, snapshot.id)
    still_off = f"still disabled: {_describe_disabled_in_file(in_file)}. {_suggest_enabling_in_file(in_file)}"
    notes: tuple[str, ...] = () if in_file.enabled else (still_off,)
    after = _build_enabled_data(None, in_file)
    if is_done:
        notes += ("re-armed",)
        before, after = {**before, "arm": snapshot.arm}, {**after, "arm": snapshot.arm + 1}
    return CommandEffect(before=before, after=after, notes=notes)


def _give_hint(tx: Transaction, now: datetime, who: str, command: HintSchedules, subject: Subject) -> CommandEffect:
    request = HintRequest(origin=who, every=command.every, at=command.at, lasts=command.lasts, reason=command.reason)
    accepted = accept_hint(now, request)
    hint, snapshot = accepted.hint, subject.snapshot
    existing = next((each for each in snapshot.hints if each.is_active(now) and _is_replacement(hint, each)), None)
    before = {} if existing is None else _build_hint_data(existing)
    try:
        control.give_hint(tx, now, snapshot.id, hint)
    except HerdbeatError as error:
        return _refuse(before, error.message.removesuffix("."), error.hint)  # as all refusals: no sentence
    # A machine that repeats itself every minute would fill the change log with the same sentence.
    is_repeated = existing is not None and _is_same_hint(existing, hint)
    return CommandEffect(
        before=before,
        # A repeated one only lasts longer: there is nothing to take back.
        after=_build_hint_data(hint)
        if is_repeated
        else {**_build_hint_data(hint), "changed_at": format_timestamp(now)},
        notes=accepted.notes,
        is_quiet=is_repeated and not is_human(who),
        notes_for_state=partial(_describe_hint_effects, hint),
        facts_for_state=partial(_find_hint_effect, hint),
    )


def _clear_hints(tx: Transaction, now: datetime, who: str, command: ClearHints, subject: Subject) -> CommandEffect:
    if command.hint is not None:
        return _clear_hint(tx, now, who, command.hint, subject)
    ranks = [rank for rank in Rank if is_human(who) or rank >= _parse_rank(who)]
    active = [each for each in subject.snapshot.hints if each.is_active(now)]
    ended = [each for each in active if each.rank in ranks]
    before: ChangeData = {"hints": [_build_hint_data(each) for each in ended]}
    kept = tuple(
        f"not removed: the hint by {each.origin}, which ranks higher" for each in active if each.rank not in ranks
    )
    if not ended:
        return _build_unchanged(before, *(kept or ("no hints to remove",)))
    control.clear_hints(tx, now, subject.snapshot.id, who, ranks)
    return CommandEffect(before=before, after={"hints": [], "changed_at": format_timestamp(now)}, notes=kept)


def _clear_hint(tx: Transaction, now: datetime, who: str, hint_id: int, subject: Subject) -> CommandEffect:
    schedule_id = subject.snapshot.id
    found = tx.hint_find(schedule_id, hint_id, now)
    if found is None:
        return _build_unchanged({"hints": []}, f"no hint {hint_id} is in force")
    before: ChangeData = {"hints": [_build_hint_data(found)]}
    if not is_human(who) and found.rank < _parse_rank(who):
        return _build_unchanged(before, f"not removed: the hint by {found.origin}, which ranks higher")
    tx.hint_end(schedule_id, hint_id, now, who)
    control.reschedule(tx, now, schedule_id)
    return CommandEffect(before=before, after={"hints": [], "changed_at": format_timestamp(now)})


def _restore_hints(tx: Transaction, now: datetime, who: str, command: RestoreHints, subject: Subject) -> CommandEffect:
    schedule_id = subject.snapshot.id
    before = _list_hints(now, subject.snapshot)
    tx.hint_restore(schedule_id, command.changed_at, now, who)
    control.reschedule(tx, now, schedule_id)
    after = _list_hints(now, tx.schedules([schedule_id])[schedule_id])
    return (
        _build_unchanged(before, "nothing to restore") if before == after else CommandEffect(before=before, after=after)
    )


def _list_hints(now: datetime, snapshot: ScheduleSnapshot) -> ChangeData:
    return {"hints": [_build_hint_data(each) for each in snapshot.hints if each.is_active(now)]}


def _reset(tx: Transaction, now: datetime, who: str, command: ResetSchedules, subject: Subject) -> CommandEffect:  # noqa: ARG001
    snapshot = subject.snapshot
    before: ChangeData = {"failures": snapshot.failures, "quarantine": snapshot.quarantine or snapshot.unreadable}
    if not snapshot.failures and before["quarantine"] is None:
        return _build_unchanged(before, "nothing to reset: no failures, no quarantine")
    control.reset(tx, now, snapshot.id)
    after = tx.schedules([snapshot.id])[snapshot.id]
    remaining_problem = after.quarantine or after.unreadable
    if remaining_problem is not None:
        refused = f"its next run still cannot be computed: {remaining_problem}"
        return _refuse(before, refused, f"Fix it{_format_file_suffix(subject.in_file)}.")
    notes = _note_disabled(snapshot) + (("still paused",) if snapshot.pause_at(now) else ())
    return CommandEffect(before=before, after={"failures": 0, "quarantine": None}, notes=notes)


def _skip(tx: Transaction, now: datetime, who: str, command: SkipBeats, subject: Subject) -> CommandEffect:  # noqa: ARG001
    snapshot = subject.snapshot
    if command.count == snapshot.skips:
        beats = "beat" if command.count == 1 else f"{command.count} beats"
        note = f"already skips its next {beats}" if command.count else "no beats to skip"
        return _build_unchanged(_skip_data(snapshot.skips), note)
    result = control.set_skip_next(tx, snapshot.id, command.count, by=who, reason=command.reason)
    before = _skip_data(result.before)
    if result.obstacle:
        return _refuse(before, result.obstacle, _EXPLAIN_HINT)
    return CommandEffect(before=before, after=_skip_data(result.skips, result.instants))


def _record_state(tx: Transaction, now: datetime, who: str, command: RecordState, subject: Subject) -> CommandEffect:
    snapshot, after = subject.snapshot, dict[str, object]()
    for name in ("last_run_at", "next_run_at", "last_error"):
        value = getattr(command, name)
        if value is not None:
            after[name] = format_timestamp(value) if isinstance(value, datetime) else value
    control.record_state(
        tx,
        now,
        snapshot.id,
        who,
        last_run_at=command.last_run_at,
        next_run_at=command.next_run_at,
        last_error=command.last_error,
    )
    return CommandEffect(before={}, after=after)


_EFFECTS: dict[type[ScheduleCommand], Callable[..., CommandEffect]] = {
    PauseSchedules: _pause,
    ResumeSchedules: _resume,
    DisableSchedules: _disable,
    EnableSchedules: _enable,
    HintSchedules: _give_hint,
    ClearHints: _clear_hints,
    RestoreHints: _restore_hints,
    ResetSchedules: _reset,
    SkipBeats: _skip,
    RecordState: _record_state,
}


def _build_unchanged(facts: ChangeData, *notes: str) -> CommandEffect:
    return CommandEffect(before=facts, after=facts, notes=notes, is_changed=False)


def _refuse(facts: ChangeData, why: str, hint: str) -> CommandEffect:
    return CommandEffect(before=facts, after=facts, refused=why, hint=hint, is_changed=False)


def _find_active_pause(now: datetime, snapshot: ScheduleSnapshot) -> Pause | None:
    return snapshot.pause if snapshot.pause is not None and snapshot.pause.is_active(now) else None


def _build_pause_data(active_pause: Pause | None) -> ChangeData:
    if active_pause is None:
        return {"paused": False}
    until = format_optional_timestamp(active_pause.until)
    return {"paused": True, "until": until, "by": active_pause.by, "reason": active_pause.reason}


def _build_enabled_data(disabled_by: str | None, in_file: EnabledInFile) -> ChangeData:
    return {"enabled": in_file.enabled and disabled_by is None, "in_file": in_file.enabled, "disabled_by": disabled_by}


def _build_hint_data(hint: Hint) -> ChangeData:
    return {
        "every": None if hint.every is None else format_duration(hint.every),
        "at": format_optional_timestamp(hint.at),
        "until": format_optional_timestamp(hint.expires_at),
        "by": hint.origin,
        "reason": hint.reason,
    }


def _describe_hint_effects(hint: Hint, now: datetime, state: ScheduleState) -> tuple[str, ...]:
    stored = next((other for other in state.hints if _is_same_hint(other, hint)), None)
    return (
        describe_effects(now, stored, state)
        if stored
        else ("not kept: the maximum number of earlier hints is reached",)
    )


def _find_hint_effect(hint: Hint, now: datetime, state: ScheduleState) -> ChangeData:
    stored = next((other for other in state.hints if _is_same_hint(other, hint)), hint)
    effect = find_effect(now, stored, state)
    return {
        "effective": None if effect.effective is None else format_duration(effect.effective),
        "clamped_to": None if effect.clamped_to is None else format_duration(effect.clamped_to),
        "shadowed_by": effect.shadowed_by,
    }


def _is_same_hint(one: Hint, other: Hint) -> bool:
    return (one.origin, one.every, one.at, one.reason) == (other.origin, other.every, other.at, other.reason)


def _is_replacement(new: Hint, old: Hint) -> bool:
    """Return whether a hint replaces another. One interval hint per rank is in effect; one-shot hints coexist."""
    return new.rank is old.rank and new.every is not None and old.every is not None


def _parse_rank(origin: str) -> Rank:
    """Return the rank of an origin; the lowest rank if the origin is unknown."""
    return Rank.__members__.get(origin.partition(":")[0].upper(), Rank.PLANNER)


def _note_disabled(snapshot: ScheduleSnapshot) -> tuple[str, ...]:
    if snapshot.enabled:
        return ()
    return (f"disabled ({f'by {snapshot.disabled_by}' if snapshot.disabled_by else 'in its file'})",)


def _describe_disabled_in_file(in_file: EnabledInFile) -> str:
    return f"enabled: false{_format_file_suffix(in_file)}"


def _suggest_enabling_in_file(in_file: EnabledInFile) -> str:
    return f"Write enabled: true{_format_file_suffix(in_file)}."


def _format_file_suffix(in_file: EnabledInFile) -> str:
    return f" in {in_file.origin}" if in_file.origin else " in its file"


def _skip_data(skips: int, instants: tuple[datetime, ...] = ()) -> ChangeData:
    if not instants:
        return {"skips": skips}
    return {"skips": skips, "instants": [format_optional_timestamp(each) for each in instants]}
