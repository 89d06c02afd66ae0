"""The hints of schedules as people ask for them: which count, which are silenced, and how the others ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.hint import Hint
from herdbeat.domain.records import HintRecord
from herdbeat.durations import format_duration
from herdbeat.governor.candidates import Hints, hint_text, hint_wish, sort_hints
from herdbeat.service.objects import Json, moment_or_null


class HintState(StrEnum):
    ACTIVE = "active"
    SHADOWED = "shadowed"  # a stronger one keeps it out
    EXPIRED = "expired"
    CONSUMED = "consumed"  # a one-shot whose beat has come
    REPLACED = "replaced"  # by a newer pace of the same rank
    SURPLUS = "surplus"  # a one-shot too many: the earliest are kept
    CLEARED = "cleared"  # by somebody


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingHint:
    record: HintRecord
    state: HintState


_ENDINGS = {each.value: each for each in (HintState.EXPIRED, HintState.CONSUMED, HintState.REPLACED, HintState.SURPLUS)}


def stand_of(records: Iterable[HintRecord], now: datetime) -> list[StandingHint]:
    """In the order given. The governor says which of the active ones are heard."""
    rows = list(records)
    active: dict[str, dict[int, Hint]] = {}
    for each in rows:
        if each.ended_at is None and each.expires_at > now:
            active.setdefault(each.schedule, {})[each.id] = hint_of(each)
    sorted_ = {schedule: sort_hints(now, tuple(hints.values())) for schedule, hints in active.items()}
    return [StandingHint(record=each, state=_state(each, active, sorted_)) for each in rows]


def hint_object(standing: StandingHint) -> Json:
    hint = standing.record
    return {
        "schedule": hint.schedule,
        "state": standing.state,
        "every": None if hint.every is None else format_duration(hint.every),
        "at": moment_or_null(hint.at),
        "origin": hint.origin,
        "reason": hint.reason,
        "created_at": moment_or_null(hint.created_at),
        "expires_at": moment_or_null(hint.expires_at),
        "ended_at": moment_or_null(hint.ended_at),
        "ended_by": hint.ended_by,
    }


def up_to_date(
    steps: tuple[Json, ...], hints: tuple[StandingHint, ...], now: datetime
) -> tuple[tuple[Json, ...], tuple[StandingHint, ...]]:
    """The steps, with what is left of each hint now, and the hints that they tell of.

    A trace is of the moment it was decided: of an hourly schedule it said "3h left" of a hint with 2h 10m to go.
    """
    found, told = [], []
    for step in steps:
        wished = (each for each in hints if str(step["text"]).startswith(f"{hint_wish(hint_of(each.record))}, "))
        hint = next((each for each in wished if each not in told), None)
        told += [] if hint is None else [hint]
        found.append(step if hint is None else {**step, "text": hint_text(now, hint_of(hint.record))})
    return tuple(found), tuple(told)


def _state(record: HintRecord, active: Mapping[str, Mapping[int, Hint]], sorted_: Mapping[str, Hints]) -> HintState:
    hint = active.get(record.schedule, {}).get(record.id)
    if hint is not None:
        is_silenced = any(each is hint for each in sorted_[record.schedule].shadowed)
        return HintState.SHADOWED if is_silenced else HintState.ACTIVE
    if record.ended_at is None:
        return HintState.EXPIRED
    return _ENDINGS.get(record.ended_by, HintState.CLEARED)


def hint_of(record: HintRecord) -> Hint:
    return Hint(
        origin=record.origin,
        every=record.every,
        at=record.at,
        reason=record.reason,
        expires_at=record.expires_at,
        created_at=record.created_at,
    )
