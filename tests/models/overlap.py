"""What happens when beats of one schedule meet, told a second time: by the words of the rules, moment after moment.

It shares no code with the engine and is not clever. Time goes in ticks of twenty seconds; at each, runs that are over
end first, then those who wait get their chance, then the clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

TICK = timedelta(seconds=20)
START = 0
HORIZON = 30
"""Ticks: ten minutes."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How long a run takes, in ticks, and how it ends when nobody stops it."""

    ticks: int
    status: str


@dataclass(frozen=True, slots=True)
class ByHand:
    tick: int
    queue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A schedule on a target with room for so many runs, of which a neighbour may take one for a while."""

    kind: str  # cron: every minute; interval: two minutes; delay: once, after two minutes
    policy: str
    room: int
    neighbour: int  # ticks, from the start
    script: tuple[Ending, ...]  # of its runs, in the order they start; repeated
    by_hand: tuple[ByHand, ...] = ()
    stop: int = 0  # ticks that a run takes to end when it is told to


@dataclass(slots=True)
class Beat:
    due: int
    by_hand: bool
    outcome: str = "pending"
    reason: str = ""


@dataclass(slots=True)
class Run:
    beat: Beat
    over: int
    status: str
    is_told: bool = False


@dataclass(slots=True)
class Told:
    """What the model says: beats, starts, statuses of the runs that are over, and the failures in a row."""

    beats: list[Beat] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    failures: int = 0
    refused: list[int] = field(default_factory=list)


EVERY = 6
"""Ticks between the beats of the interval: two minutes."""


class Model:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.told = Told()
        self.running: list[Run] = []
        self.waiting: list[Beat] = []
        self.anchor = START
        self.next: int | None = {"cron": 3, "interval": EVERY, "delay": 6}[case.kind]

    def run(self) -> Told:
        for now in range(HORIZON + 1):
            self.settle(now)
            for each in self.case.by_hand:
                if each.tick == now:
                    self.fire(now, each)
                    self.settle(now)
        return self.told

    def settle(self, now: int) -> None:
        """Until nothing more happens at this moment."""
        while self.runs_end(now) or self.waiting_start(now) or self.clock_comes(now):
            pass

    # ── one thing after another ──

    def runs_end(self, now: int) -> bool:
        over = next((run for run in self.running if run.over <= now), None)
        if over is None:
            return False
        self.running.remove(over)
        over.beat.outcome, over.beat.reason = "ran", ""
        self.told.ended.append(over.status)
        self.count(now, over)
        return True

    def waiting_start(self, now: int) -> bool:
        for beat in sorted(self.waiting, key=lambda beat: beat.due):
            if self.has_room(now) and (self.case.policy == "allow" or not self.running):
                self.waiting.remove(beat)
                self.start(now, beat)
                return True
        return False

    def clock_comes(self, now: int) -> bool:
        if self.next is None or self.next > now:
            return False
        beat = Beat(self.next, by_hand=False)
        self.told.beats.append(beat)
        self.next = self.next + 3 if self.case.kind == "cron" else None
        self.arrive(now, beat)
        return True

    # ── a clock beat arrives ──

    def arrive(self, now: int, beat: Beat) -> None:
        own = [each for each in self.waiting if not each.by_hand]
        policy, is_busy = self.case.policy, bool(self.running)
        if policy == "allow" or not (is_busy or own):
            self.start_or_wait(now, beat)
        elif policy == "queue_all" or (policy == "queue" and not own):
            self.waiting.append(beat)
        elif own:
            self.leave(now, beat, "merged", "already_running" if is_busy else "at_capacity")
        elif policy == "skip":
            self.leave(now, beat, "skipped", "already_running")
        else:
            for run in self.running:
                self.tell_to_stop(now, run)
            self.waiting.append(beat)

    def start_or_wait(self, now: int, beat: Beat) -> None:
        if self.has_room(now):
            self.start(now, beat)
        else:
            self.waiting.append(beat)

    def leave(self, now: int, beat: Beat, outcome: str, reason: str) -> None:
        """It does not run. A pace counts on from here, unless another of its beats is still to run."""
        beat.outcome, beat.reason = outcome, reason
        self.anchor = now
        self.plan(now)

    def tell_to_stop(self, now: int, run: Run) -> None:
        if run.is_told:
            return
        run.is_told, run.status = True, "cancelled"
        run.over = now + self.case.stop
        if self.told.starts[-1] == (now, run.beat.due):
            # It had waited, and its successor comes at the very moment of its start: it never begins.
            self.told.starts.pop()
            run.over = now

    def start(self, now: int, beat: Beat) -> None:
        beat.outcome = "running"
        ending = self.case.script[len(self.told.starts) % len(self.case.script)]
        self.told.starts.append((now, beat.due))
        self.running.append(Run(beat, now + ending.ticks, ending.status))

    # ── afterwards ──

    def count(self, now: int, run: Run) -> None:
        before = self.told.failures
        if run.status == "succeeded":
            self.told.failures = 0
        elif run.status in ("failed", "timed_out") and not run.beat.by_hand:
            self.told.failures += 1
        if not run.beat.by_hand:
            self.anchor = now
            self.plan(now)
        elif self.told.failures != before and self.next is not None and self.next > now:
            self.plan(now)

    def plan(self, now: int) -> None:
        if self.case.kind == "interval":
            pace = EVERY * 2 ** min(self.told.failures, 5)
            self.next = max(now, self.anchor + pace)

    def fire(self, now: int, asked: ByHand) -> None:
        policy = self.case.policy
        is_full, is_busy = not self.has_room(now), bool(self.running) and policy != "allow"
        waits = asked.queue or (not is_full and policy in ("queue", "queue_all"))
        if (is_full or is_busy) and not waits:
            self.told.refused.append(now)
            return
        beat = Beat(now, by_hand=True)
        self.told.beats.append(beat)
        self.waiting.append(beat)

    def has_room(self, now: int) -> bool:
        neighbour = 1 if now < self.case.neighbour else 0
        return len(self.running) + neighbour < self.case.room


def moments(start: datetime) -> Iterator[tuple[int, datetime]]:
    for tick in range(HORIZON + 1):
        yield tick, start + tick * TICK
