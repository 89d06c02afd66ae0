"""Replay of a ledger: every stored decision is made again from its stored inputs."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from herdbeat.domain.change import ChangeKind
from herdbeat.domain.codec import TriggerLoader
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.timing import TimingPolicy
from herdbeat.governor.decide import decide
from herdbeat.governor.state import JsonObject, decision_to_json, inputs_from_json
from herdbeat.store.reader import Filter, Reader
from herdbeat.triggers import load_trigger

PAGE_ROWS = 1_000
MAX_DIFFERENCES = 100
"""How many differences are kept. All of them are counted."""

_MAX_EDITS = 1_000


class ReplayVerdict(StrEnum):
    """How a stored decision compares with the one that is made from its inputs today."""

    SAME = "same"
    DIFFERENT = "different"
    NO_INPUTS = "no_inputs"  # a paced start, or an older version wrote it
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result for one decision. `stored` and `replayed` are set where they differ."""

    verdict: ReplayVerdict
    stored: JsonObject | None = None
    replayed: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDifference:
    """A decision that would not be made today. `beat_id` is None for the decision that stands for the next run."""

    schedule: str
    beat_id: int | None
    stored: Mapping[str, object]
    replayed: Mapping[str, object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReplay:
    """How the decisions of a ledger compare.

    `edited` were made before the last edit of their schedule: its old timing is not known, so they prove nothing.
    `unknown` have no inputs: paced starts, and what an older version wrote.
    """

    schedules: int
    decisions: int
    same: int
    different: int
    edited: int
    unknown: int
    differences: tuple[ReplayDifference, ...]

    @property
    def is_clean(self) -> bool:
        return self.different == 0


@dataclass(frozen=True, slots=True)
class _StoredDecision:
    beat_id: int | None
    text: str


def replay_ledger(reader: Reader, records: list[ScheduleRecord]) -> LedgerReplay:
    """Decide everything again that is stored for these schedules."""
    counts, differences = Counter[str](), list[ReplayDifference]()
    for record in records:
        edited_at = None
        for stored in _list_decisions(reader, record):
            counts["decisions"] += 1
            replay = _replay(stored, record)
            verdict = str(replay.verdict)
            if replay.verdict in (ReplayVerdict.DIFFERENT, ReplayVerdict.UNREADABLE):
                edited_at = edited_at or _find_last_edit(reader, record)
                if _was_before(replay, edited_at):
                    verdict = "edited"
                elif len(differences) < MAX_DIFFERENCES:
                    differences.append(_describe(record, stored, replay))
            counts[verdict] += 1
    return LedgerReplay(
        schedules=len(records),
        decisions=counts["decisions"],
        same=counts[ReplayVerdict.SAME],
        different=counts[ReplayVerdict.DIFFERENT] + counts[ReplayVerdict.UNREADABLE],
        edited=counts["edited"],
        unknown=counts[ReplayVerdict.NO_INPUTS],
        differences=tuple(differences),
    )


def _list_decisions(reader: Reader, record: ScheduleRecord) -> Iterator[_StoredDecision]:
    after = 0
    while page := reader.beat_traces(record.id, after, PAGE_ROWS):
        yield from (_StoredDecision(beat_id, text) for beat_id, text in page)
        after = page[-1][0]
    if record.next_trace:
        yield _StoredDecision(None, record.next_trace)


def _replay(stored: _StoredDecision, record: ScheduleRecord) -> Replay:
    try:
        data = json.loads(stored.text)
    except ValueError:
        return Replay(verdict=ReplayVerdict.UNREADABLE)
    if not isinstance(data, dict):
        return Replay(verdict=ReplayVerdict.UNREADABLE)
    return decide_again(data, f"{record.target}/{record.name}", record.plan.timing, load_trigger)


def _find_last_edit(reader: Reader, record: ScheduleRecord) -> datetime | None:
    found = reader.changes(Filter(target=record.target, name=record.name, limit=_MAX_EDITS))
    found += reader.changes(Filter(target=record.target, limit=_MAX_EDITS))
    kinds = (ChangeKind.ADD, ChangeKind.EDIT)
    edits = [each.at for each in found if each.what in kinds and each.subject in (record.label, record.target)]
    return max(edits, default=None)


def _was_before(replay: Replay, edited_at: datetime | None) -> bool:
    inputs = (replay.stored or {}).get("inputs")
    decided_at = inputs.get("now") if isinstance(inputs, dict) else None
    if edited_at is None or not isinstance(decided_at, str):
        return False
    try:
        return datetime.fromisoformat(decided_at) < edited_at
    except ValueError:
        return False


def _describe(record: ScheduleRecord, stored: _StoredDecision, replay: Replay) -> ReplayDifference:
    return ReplayDifference(
        schedule=record.label,
        beat_id=stored.beat_id,
        stored=replay.stored or {},
        replayed=replay.replayed,
    )


def decide_again(stored: JsonObject, schedule: str, timing: TimingPolicy, load_trigger: TriggerLoader) -> Replay:
    """Decide again from what was stored with a decision, under the present timing of its schedule."""
    if "inputs" not in stored:
        return Replay(verdict=ReplayVerdict.NO_INPUTS)
    try:
        now, state = inputs_from_json(stored["inputs"], schedule, timing, load_trigger)
    except (KeyError, TypeError, ValueError):
        return Replay(verdict=ReplayVerdict.UNREADABLE, stored=stored)
    replayed = decision_to_json(decide(now, state))
    if replayed == stored:
        return Replay(verdict=ReplayVerdict.SAME)
    return Replay(verdict=ReplayVerdict.DIFFERENT, stored=stored, replayed=replayed)
