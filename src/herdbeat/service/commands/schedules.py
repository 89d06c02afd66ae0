"""One act on one schedule: what it was, what it is now, or why nothing was done. Toggles may be repeated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import assert_never

from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.decision import Source
from herdbeat.domain.hint import Hint, Rank
from herdbeat.durations import format_duration
from herdbeat.errors import HerdbeatError, UsageError, truncate_for_message
from herdbeat.governor import Pause, ScheduleState
from herdbeat.governor.hints import accept_hint, can_override, describe_effects, is_human
from herdbeat.scheduler import control
from herdbeat.scheduler.evaluate import governor_state
from herdbeat.service.commands.base import (
    ClearHints,
    DisableSchedules,
    EnableSchedules,
    HintSchedules,
    PauseSchedules,
    ResetSchedules,
    ResumeSchedules,
    ScheduleCommand,
    SkipBeats,
)
from herdbeat.service.commands.dispatch import write_offline
from herdbeat.service.serialize import JsonObject
from herdbeat.store.base import EnabledInFile, ScheduleSnapshot, Transaction
from herdbeat.store.location import StoreHandle, StoreLocation
from herdbeat.timestamps import format_optional_timestamp


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


# Letting the next beats of a schedule pass: one act of many, with its words.


MAX_SKIPPED_BEATS = 1_000
"""More than that is a pause."""


def validate_skip_count(command: SkipBeats) -> None:
    if not 0 <= command.count <= MAX_SKIPPED_BEATS:
        raise UsageError(
            f"{command.count} beats cannot be skipped.", hint=f"Write 1 to {MAX_SKIPPED_BEATS}; a pause lasts longer."
        )


def skip_schedule_beats(tx: Transaction, command: SkipBeats, snapshot: ScheduleSnapshot) -> CommandEffect:
    """Asking for what is wished already changes nothing."""
    if command.count == snapshot.skips:
        before = _skip_data(snapshot.skips)
        beats = "beat" if command.count == 1 else f"{command.count} beats"
        note = f"it skips its next {beats} already" if command.count else "nothing is to be skipped"
        return CommandEffect(before=before, after=before, notes=(note,), is_changed=False)
    result = control.set_skip_next(tx, snapshot.id, command.count, by=command.who, reason=command.reason)
    before = _skip_data(result.before)
    if result.obstacle:
        return CommandEffect(before=before, after=before, refused=result.obstacle, fix=_EXPLAIN_HINT, is_changed=False)
    return CommandEffect(before=before, after=_skip_data(result.skips, result.instants))


_EXPLAIN_HINT = "Look at it with: herdbeat explain"


def _skip_data(skips: int, instants: tuple[datetime, ...] = ()) -> ChangeData:
    return (
        {"skips": skips, "instants": [format_optional_timestamp(each) for each in instants]}
        if instants
        else {"skips": skips}
    )


# The one way to change schedules: an act and the schedules it is about go in, what became of each comes out.
#
# Every change writes its row into the `change` table, in the transaction that makes it.


MAX_REASON_CHARS = 200
"""Letters of a reason that are kept."""

MAX_SCHEDULES_PER_TRANSACTION = 100
"""Schedules changed in one transaction: it shares the writer with beats that are due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """What became of one schedule. `refused` says why nothing was done, `mend` what to do about it."""

    schedule: str
    is_changed: bool
    before: ChangeData
    after: ChangeData
    next_run_at: datetime | None
    source: Source | None
    running: int
    notes: tuple[str, ...] = ()
    refused: str = ""
    fix: str = ""


def execute(
    tx: Transaction, now: datetime, command: ScheduleCommand, schedule_ids: Sequence[int]
) -> list[ScheduleChange]:
    """Do it, for each. One that was removed meanwhile is left out. Raises UsageError for an act that is nonsense."""
    _validate_command(now, command)
    # Words from outside: one printable line each, for they are shown on every screen, and not every ledger holds all.
    command = replace(
        command,
        who=truncate_for_message(command.who, MAX_REASON_CHARS),
        reason=truncate_for_message(command.reason, MAX_REASON_CHARS),
    )
    switches = tx.schedule_get_enabled(schedule_ids)
    before = tx.schedules(switches)
    steps = {
        schedule_id: _execute_one(tx, now, command, before[schedule_id], file_setting)
        for schedule_id, file_setting in switches.items()
    }
    after = tx.schedules(switches)
    tx.add_changes(
        [
            _build_change(now, command, before[schedule_id].label, step)
            for schedule_id, step in steps.items()
            if step.is_recorded
        ]
    )
    return [_build_result(now, step, after[schedule_id], switches[schedule_id]) for schedule_id, step in steps.items()]


async def execute_in_process(
    store: StoreHandle, now: datetime, command: ScheduleCommand, schedule_ids: Sequence[int]
) -> list[JsonObject]:
    """In the process that runs the fleet. The loop has to be woken afterwards."""
    results = await store.write(lambda tx: execute(tx, now, command, schedule_ids))
    return [serialize_schedule_change(each) for each in results]


def execute_offline(
    path: StoreLocation,
    now: datetime,
    command: ScheduleCommand,
    schedule_ids: Sequence[int],
    *,
    cancel_running: bool = False,
) -> list[JsonObject]:
    """Without a node here. Raises Conflict if one has the file. Runs are ended by the nodes elsewhere that have them.

    Those hear of it with the change.
    """

    def work(tx: Transaction) -> list[ScheduleChange]:
        results = execute(tx, now, command, schedule_ids)
        if cancel_running:
            request_remote_stop(tx, command, schedule_ids)
        return results

    return [serialize_schedule_change(each) for each in write_offline(path, work)]


def request_remote_stop(
    tx: Transaction, command: ScheduleCommand, schedule_ids: Sequence[int], node_id: int = 0
) -> None:
    """Leave word for other nodes that have runs of these schedules."""
    tx.run_request_stop(format_stop_reason(command), schedules=schedule_ids, node_id=node_id)


def format_stop_reason(command: ScheduleCommand) -> str:
    """What a run says of its end that was stopped together with such a change."""
    return f"stopped by {command.who} with a {command.what}"


def serialize_schedule_change(changed: ScheduleChange) -> JsonObject:
    return {
        "schedule": changed.schedule,
        "changed": changed.is_changed,
        "before": dict(changed.before),
        "after": dict(changed.after),
        "next_run_at": format_optional_timestamp(changed.next_run_at),
        "source": changed.source,
        "running": changed.running,
        "notes": list(changed.notes),
        "refused": changed.refused,
        "hint": changed.fix,
    }


def _validate_command(now: datetime, command: ScheduleCommand) -> None:
    if isinstance(command, SkipBeats):
        validate_skip_count(command)
    if not isinstance(command, PauseSchedules) or command.until is None:
        return
    if command.until.tzinfo is None:
        raise UsageError("The end of the pause has no offset.", hint="Write for example 2026-04-01T18:00:00Z.")
    if command.until <= now:
        raise UsageError("The pause would be over already.", hint="Write an end that lies ahead, or --for 2h.")


def _execute_one(
    tx: Transaction, now: datetime, command: ScheduleCommand, snapshot: ScheduleSnapshot, file_setting: EnabledInFile
) -> CommandEffect:
    match command:
        case PauseSchedules():
            return pause_schedule(tx, now, command, snapshot)
        case ResumeSchedules():
            return resume_schedule(tx, now, command, snapshot)
        case DisableSchedules():
            return disable_schedule(tx, now, command, snapshot, file_setting)
        case EnableSchedules():
            return enable_schedule(tx, now, command, snapshot, file_setting)
        case HintSchedules():
            return hint_schedule(tx, now, command, snapshot)
        case ClearHints():
            return clear_schedule_hints(tx, now, command, snapshot)
        case ResetSchedules():
            return reset_schedule(tx, now, snapshot, file_setting)
        case SkipBeats():
            return skip_schedule_beats(tx, command, snapshot)
        case never:
            assert_never(never)


def _build_change(now: datetime, command: ScheduleCommand, subject: str, step: CommandEffect) -> Change:
    after = {**step.after, "reason": command.reason} if command.reason else step.after
    return Change(at=now, who=command.who, what=command.what, subject=subject, before=step.before, after=after)


def _build_result(
    now: datetime, step: CommandEffect, after: ScheduleSnapshot, file_setting: EnabledInFile
) -> ScheduleChange:
    return ScheduleChange(
        schedule=file_setting.label,
        is_changed=step.is_changed,
        before=step.before,
        after=step.after,
        next_run_at=after.next_run_at,
        source=after.next_source,
        running=after.running,
        notes=(*step.notes, *(step.notes_for_state(now, governor_state(after)) if step.notes_for_state else ())),
        refused=step.refused,
        fix=step.fix,
    )
