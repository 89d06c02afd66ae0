"""The hints of schedules as people ask for them: which count, which are silenced, and how the others ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.hint import Hint
from herdbeat.domain.records import HintRecord
from herdbeat.governor.candidates import RankedHints, describe_hint, describe_hint_status, rank_hints
from herdbeat.service.serialize import JsonObject


class HintState(StrEnum):
    ACTIVE = "active"
    SHADOWED = "shadowed"  # a stronger one keeps it out
    EXPIRED = "expired"
    CONSUMED = "consumed"  # a one-shot whose beat has come
    REPLACED = "replaced"  # by a newer pace of the same rank
    SURPLUS = "surplus"  # a one-shot too many: the earliest are kept
    CLEARED = "cleared"  # by somebody


@dataclass(frozen=True, slots=True, kw_only=True)
class HintView:
    record: HintRecord
    state: HintState


_STATE_BY_ENDING = {
    each.value: each for each in (HintState.EXPIRED, HintState.CONSUMED, HintState.REPLACED, HintState.SURPLUS)
}


def classify_hints(records: Iterable[HintRecord], now: datetime) -> list[HintView]:
    """In the order given. The governor says which of the active ones are heard."""
    rows = list(records)
    active: dict[str, dict[int, Hint]] = {}
    for each in rows:
        if each.ended_at is None and each.expires_at > now:
            active.setdefault(each.schedule, {})[each.id] = build_hint(each)
    ranked = {schedule: rank_hints(now, tuple(hints.values())) for schedule, hints in active.items()}
    return [HintView(record=each, state=_classify_hint(each, active, ranked)) for each in rows]


def refresh_hint_steps(
    steps: tuple[JsonObject, ...], hints: tuple[HintView, ...], now: datetime
) -> tuple[tuple[JsonObject, ...], tuple[HintView, ...]]:
    """The steps, with what is left of each hint now, and the hints that they tell of.

    A trace is of the moment it was decided: of an hourly schedule it said "3h left" of a hint with 2h 10m to go.
    """
    found, traced = [], []
    for step in steps:
        matching = (
            each for each in hints if str(step["text"]).startswith(f"{describe_hint(build_hint(each.record))}, ")
        )
        hint = next((each for each in matching if each not in traced), None)
        traced += [] if hint is None else [hint]
        found.append(step if hint is None else {**step, "text": describe_hint_status(now, build_hint(hint.record))})
    return tuple(found), tuple(traced)


def _classify_hint(
    record: HintRecord, active: Mapping[str, Mapping[int, Hint]], ranked: Mapping[str, RankedHints]
) -> HintState:
    hint = active.get(record.schedule, {}).get(record.id)
    if hint is not None:
        is_shadowed = any(each is hint for each in ranked[record.schedule].shadowed)
        return HintState.SHADOWED if is_shadowed else HintState.ACTIVE
    if record.ended_at is None:
        return HintState.EXPIRED
    return _STATE_BY_ENDING.get(record.ended_by, HintState.CLEARED)


def build_hint(record: HintRecord) -> Hint:
    return Hint(
        origin=record.origin,
        every=record.every,
        at=record.at,
        reason=record.reason,
        expires_at=record.expires_at,
        created_at=record.created_at,
    )
