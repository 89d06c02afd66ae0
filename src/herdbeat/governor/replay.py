"""Replay: a stored decision is made again from its stored inputs, and must be the same. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from herdbeat.domain.codec import TriggerLoader
from herdbeat.domain.timing import TimingPolicy
from herdbeat.governor.decide import decide
from herdbeat.governor.state import JsonObject, decision_to_json, inputs_from_json


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


def replay_decision(stored: JsonObject, schedule: str, timing: TimingPolicy, load_trigger: TriggerLoader) -> Replay:
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
