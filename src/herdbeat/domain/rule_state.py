"""The state of the rules of a schedule: their conditions after a run, what is remembered, and what they did."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class RuleOutcome(StrEnum):
    """The outcome of one rule after one run."""

    FIRED = "fired"
    RENEWED = "renewed"  # it was active already, and its hint lasts longer now
    ACTIVE = "active"  # it has acted once, and waits for its `until`
    ENDED = "ended"  # `until` has become true, or an idle back-off has met its first non-match
    NO_MATCH = "no-match"
    WAITING = "waiting"  # it matches, but not yet for `for_runs` runs
    COOLDOWN = "cooldown"
    SHADOWED = "shadowed"  # it would have fired, but an earlier rule did
    UNDECIDABLE = "undecidable"


_NOTHING_READ: Mapping[str, object] = MappingProxyType({})


class RuleTruth(NamedTuple):
    """The conditions of one rule after one run. `when` and `until` are None if they could not be evaluated.

    `rule` is the name of the rule and its conditions as written: an edit may have replaced them meanwhile.
    """

    rule: tuple[str, ...]
    when: bool | None
    until: bool | None = None
    reads: Mapping[str, object] = _NOTHING_READ
    error: str = ""


class RuleState(NamedTuple):
    """What the ledger remembers of one rule.

    `matches` counts the runs in a row for which it has matched. `is_active` is True from its firing until its end.
    """

    matches: int = 0
    is_active: bool = False
    fired_at: datetime | None = None


class RuleStep(NamedTuple):
    """The outcome of one rule, for `explain`. `fired_at` is when it fired last, as far as the ledger knows."""

    rule: str
    outcome: RuleOutcome
    reads: Mapping[str, object] = _NOTHING_READ
    error: str = ""
    matches: int = 0
    for_runs: int = 1
    fired_at: datetime | None = None
