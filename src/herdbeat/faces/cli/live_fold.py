"""A herd that all waits for one target is one story: a few of it are told one by one, the others are counted."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from herdbeat.domain.beat import BeatOutcome
from herdbeat.events import BeatSettled

NAMED = 10
"""Beats of one fate that are told one by one before the rest is counted."""

PAUSE = 1.0
"""Seconds between two counts. A herd that was quiet for so long is a new story."""

Fate = tuple[BeatOutcome, str]
"""Outcome and reason."""

Later = Callable[[float, Callable[[], None]], object]


@dataclass(slots=True)
class Fold:
    """Decides which beats have a line of their own. `tell` is given the fate of the others, and how many there are."""

    later: Later
    tell: Callable[[Fate, int], None]
    _named: Counter[Fate] = field(default_factory=Counter)
    _counted: Counter[Fate] = field(default_factory=Counter)
    _is_waiting: bool = False

    def takes(self, event: BeatSettled) -> bool:
        """Whether it is counted instead of being told. What was missed is told, always: somebody should look."""
        if event.outcome is BeatOutcome.MISSED:
            return False
        fate = (event.outcome, event.reason)
        is_many = self._named[fate] >= NAMED
        (self._counted if is_many else self._named)[fate] += 1
        self._wait()
        return is_many

    def say(self) -> None:
        """Tell what was counted so far."""
        counted, self._counted = self._counted, Counter()
        for fate, number in counted.items():
            self.tell(fate, number)

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self.later(PAUSE, self._look)

    def _look(self) -> None:
        """What came since goes on being counted; who was not heard of any more begins anew."""
        self._is_waiting = False
        self._named = Counter(dict.fromkeys(self._counted, NAMED))
        if self._counted:
            self._wait()
        self.say()
