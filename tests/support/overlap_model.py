"""A second, independent implementation of the overlap rules, one tick after the other.

It shares no code with the scheduler and is not optimized. Time advances in ticks of twenty seconds; at each, runs that
are over end first, then queued beats get their chance, then the clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

TICK = timedelta(seconds=20)
START_TICK = 0
HORIZON_TICKS = 30
"""Ticks: ten minutes."""


@dataclass(frozen=True, slots=True)
class ScriptedRun:
    """How long a run takes, in ticks, and how it ends unless it is cancelled."""

    ticks: int
    status: str


@dataclass(frozen=True, slots=True)
class ManualRequest:
    tick: int
    queue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapCase:
    """A schedule on a target with `room` slots, of which another schedule may use one for a while."""

    kind: str  # cron: every minute; interval: two minutes; delay: once, after two minutes
    policy: str
    room: int
    neighbour: int  # ticks, from the start
    script: tuple[ScriptedRun, ...]  # of its runs, in the order they start; repeated
    by_hand: tuple[ManualRequest, ...] = ()
    stop: int = 0  # ticks that a run takes to end after it is cancelled


@dataclass(slots=True)
class ModelBeat:
    due: int
    by_hand: bool
    outcome: str = "pending"
    reason: str = ""


@dataclass(slots=True)
class ModelRun:
    beat: ModelBeat
    over: int
    status: str
    is_cancelled: bool = False


@dataclass(slots=True)
class ModelResult:
    """The result of the model: beats, starts, statuses of the runs that are over, and consecutive failures."""

    beats: list[ModelBeat] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    failures: int = 0
    refused: list[int] = field(default_factory=list)


INTERVAL_TICKS = 6
"""Ticks between the beats of the interval: two minutes."""


class OverlapModel:
    def __init__(self, case: OverlapCase) -> None:
        self.case = case
        self.result = ModelResult()
        self.running: list[ModelRun] = []
        self.waiting: list[ModelBeat] = []
        self.anchor = START_TICK
        self.next: int | None = {"cron": 3, "interval": INTERVAL_TICKS, "delay": 6}[case.kind]

    def run(self) -> ModelResult:
        for now in range(HORIZON_TICKS + 1):
            self.settle(now)
            for each in self.case.by_hand:
                if each.tick == now:
                    self.fire(now, each)
                    self.settle(now)
        return self.result

    def settle(self, now: int) -> None:
        """Apply all transitions of this tick."""
        while self.end_one_run(now) or self.start_one_waiting(now) or self.fire_clock(now):
            pass

    # ── transitions ──

    def end_one_run(self, now: int) -> bool:
        over = next((run for run in self.running if run.over <= now), None)
        if over is None:
            return False
        self.running.remove(over)
        has_started = over.status != "skipped"
        over.beat.outcome, over.beat.reason = ("ran", "") if has_started else ("merged", "cancel")
        self.result.ended.append(over.status)
        self.count(now, over)
        return True

    def start_one_waiting(self, now: int) -> bool:
        for beat in sorted(self.waiting, key=lambda beat: beat.due):
            if self.has_room(now) and (self.case.policy == "allow" or not self.running):
                self.waiting.remove(beat)
                self.start(now, beat)
                return True
        return False

    def fire_clock(self, now: int) -> bool:
        if self.next is None or self.next > now:
            return False
        beat = ModelBeat(self.next, by_hand=False)
        self.result.beats.append(beat)
        self.next = self.next + 3 if self.case.kind == "cron" else None
        self.arrive(now, beat)
        return True

    # ── a clock beat is due ──

    def arrive(self, now: int, beat: ModelBeat) -> None:
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
                self.cancel_run(now, run)
            self.waiting.append(beat)

    def start_or_wait(self, now: int, beat: ModelBeat) -> None:
        if self.has_room(now):
            self.start(now, beat)
        else:
            self.waiting.append(beat)

    def leave(self, now: int, beat: ModelBeat, outcome: str, reason: str) -> None:
        """Settle a beat that does not run. An interval counts from here, unless another beat is still to run."""
        beat.outcome, beat.reason = outcome, reason
        self.anchor = now
        self.plan(now)

    def cancel_run(self, now: int, run: ModelRun) -> None:
        if run.is_cancelled:
            return
        run.is_cancelled, run.status = True, "cancelled"
        run.over = now + self.case.stop
        if self.result.starts[-1] == (now, run.beat.due):
            # It was queued, and its successor is due at the very moment of its start: it never begins.
            self.result.starts.pop()
            run.over, run.status = now, "skipped"

    def start(self, now: int, beat: ModelBeat) -> None:
        beat.outcome = "running"
        ending = self.case.script[len(self.result.starts) % len(self.case.script)]
        self.result.starts.append((now, beat.due))
        self.running.append(ModelRun(beat, now + ending.ticks, ending.status))

    # ── results ──

    def count(self, now: int, run: ModelRun) -> None:
        before = self.result.failures
        if run.status == "succeeded":
            self.result.failures = 0
        elif run.status in ("failed", "timed_out") and not run.beat.by_hand:
            self.result.failures += 1
        if not run.beat.by_hand:
            self.anchor = now
            self.plan(now)
        elif self.result.failures != before and self.next is not None and self.next > now:
            self.plan(now)

    def plan(self, now: int) -> None:
        if self.case.kind == "interval":
            pace = INTERVAL_TICKS * 2 ** min(self.result.failures, 5)
            self.next = max(now, self.anchor + pace)

    def fire(self, now: int, request: ManualRequest) -> None:
        policy = self.case.policy
        is_full, is_busy = not self.has_room(now), bool(self.running) and policy != "allow"
        waits = request.queue or (not is_full and policy in ("queue", "queue_all"))
        if (is_full or is_busy) and not waits:
            self.result.refused.append(now)
            return
        beat = ModelBeat(now, by_hand=True)
        self.result.beats.append(beat)
        self.waiting.append(beat)

    def has_room(self, now: int) -> bool:
        neighbour = 1 if now < self.case.neighbour else 0
        return len(self.running) + neighbour < self.case.room


def iter_ticks(start: datetime) -> Iterator[tuple[int, datetime]]:
    for tick in range(HORIZON_TICKS + 1):
        yield tick, start + tick * TICK
