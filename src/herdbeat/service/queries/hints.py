"""The hints of schedules: which are in effect, which a stronger one shadows, and how the others ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.hint import Hint
from herdbeat.domain.records import HintRecord
from herdbeat.governor.candidates import RankedHints, describe_hint, describe_hint_status, rank_hints
from herdbeat.service.serialize import JsonObject


class HintState(StrEnum):
    ACTIVE = "active"
    SHADOWED = "shadowed"  # a stronger one is in effect
    EXPIRED = "expired"
    CONSUMED = "consumed"  # a one-shot whose beat has come
    REPLACED = "replaced"  # by a newer interval of the same rank
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
    """Return a view of each hint, in the order given. The governor ranks the active ones."""
    hints = list(records)
    active: dict[str, dict[int, Hint]] = {}
    for each in hints:
        if each.ended_at is None and each.expires_at > now:
            active.setdefault(each.schedule, {})[each.id] = build_hint(each)
    ranked = {schedule: rank_hints(now, tuple(by_id.values())) for schedule, by_id in active.items()}
    return [HintView(record=each, state=_classify_hint(each, active, ranked)) for each in hints]


def refresh_hint_steps(
    steps: tuple[JsonObject, ...], hints: tuple[HintView, ...], now: datetime
) -> tuple[tuple[JsonObject, ...], tuple[HintView, ...]]:
    """Return the steps with what is left of each hint now, and the hints that they mention.

    A trace is as old as its decision: that of an hourly schedule said "3h left" about a hint with 2h 10m to go.
    """
    refreshed, traced = [], []
    for step in steps:
        text = str(step["text"])
        matching = (each for each in hints if text.startswith(f"{describe_hint(build_hint(each.record))}, "))
        hint = next((each for each in matching if each not in traced), None)
        traced += [] if hint is None else [hint]
        refreshed.append(step if hint is None else {**step, "text": describe_hint_status(now, build_hint(hint.record))})
    return tuple(refreshed), tuple(traced)


def _classify_hint(
    record: HintRecord, active: Mapping[str, Mapping[int, Hint]], ranked: Mapping[str, RankedHints]
) -> HintState:
    hint = active.get(record.schedule, {}).get(record.id)
    if hint is not None:
        is_shadowed = any(each is hint for each in ranked[record.schedule].shadowed)
        return HintState.SHADOWED if is_shadowed else HintState.ACTIVE
    return HintState.EXPIRED if record.ended_at is None else _STATE_BY_ENDING.get(record.ended_by, HintState.CLEARED)


def build_hint(record: HintRecord) -> Hint:
    return Hint(**{each.name: getattr(record, each.name) for each in fields(Hint) if each.init})
