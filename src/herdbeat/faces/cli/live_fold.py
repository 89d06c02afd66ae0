"""A herd that all waits for one target is one story: a few of it are told one by one, the others are counted."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from herdbeat.domain.beat import BeatOutcome
from herdbeat.events import BeatSettled

MAX_NAMED_BEATS = 10
"""Beats of one fate that are told one by one before the rest is counted."""

COUNT_INTERVAL_S = 1.0
"""Seconds between two counts. A herd that was quiet for so long is a new story."""

OutcomeKey = tuple[BeatOutcome, str]
"""Outcome and reason."""

CallLater = Callable[[float, Callable[[], None]], object]


@dataclass(slots=True)
class BeatAggregator:
    """Decides which beats have a line of their own. `tell` is given the fate of the others, and how many there are."""

    call_later: CallLater
    on_count: Callable[[OutcomeKey, int], None]
    _shown_counts: Counter[OutcomeKey] = field(default_factory=Counter)
    _folded_counts: Counter[OutcomeKey] = field(default_factory=Counter)
    _is_waiting: bool = False

    def fold_if_repeated(self, event: BeatSettled) -> bool:
        """Whether it is counted instead of being told. What was missed is told, always: somebody should look."""
        if event.outcome is BeatOutcome.MISSED:
            return False
        outcome_key = (event.outcome, event.reason)
        is_many = self._shown_counts[outcome_key] >= MAX_NAMED_BEATS
        (self._folded_counts if is_many else self._shown_counts)[outcome_key] += 1
        self._start_interval()
        return is_many

    def print(self) -> None:
        """Tell what was counted so far."""
        counted, self._folded_counts = self._folded_counts, Counter()
        for outcome_key, number in counted.items():
            self.on_count(outcome_key, number)

    def _start_interval(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self.call_later(COUNT_INTERVAL_S, self._on_interval)

    def _on_interval(self) -> None:
        """What came since goes on being counted; who was not heard of any more begins anew."""
        self._is_waiting = False
        self._shown_counts = Counter(dict.fromkeys(self._folded_counts, MAX_NAMED_BEATS))
        if self._folded_counts:
            self._start_interval()
        self.print()
