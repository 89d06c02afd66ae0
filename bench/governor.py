"""Decisions per second: the governor decides at every beat, inside the transaction that records it."""

from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from bench.timing import Result, format_table, time_contenders
from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import Jitter, Limits
from herdbeat.domain.timing import TimingPolicy
from herdbeat.governor import ScheduleState, decide
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.interval import Interval

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
GOAL = 50_000


def _state(timing: TimingPolicy, **changes: object) -> ScheduleState:
    return ScheduleState(schedule="api/health", timing=timing, anchor_at=NOW, **changes)  # type: ignore[arg-type]


def _states() -> dict[str, ScheduleState]:
    five_minutes = Interval(every=timedelta(minutes=5))
    limits = Limits(at_least=timedelta(seconds=15), at_most=timedelta(minutes=15))
    surge = Hint(
        origin="rule:surge", every=timedelta(seconds=30), expires_at=NOW + timedelta(hours=1), reason="queue at 150"
    )
    standup = Cron.parse("0 9 * * 1-5", ZoneInfo("Europe/Berlin"))
    return {
        "interval": _state(TimingPolicy(trigger=five_minutes)),
        "interval, limits": _state(TimingPolicy(trigger=five_minutes, limits=limits)),
        "interval, a hint": _state(TimingPolicy(trigger=five_minutes, limits=limits), hints=(surge,)),
        "cron": _state(TimingPolicy(trigger=Cron.parse("*/15 * * * *", ZoneInfo("UTC")))),
        "cron in a zone": _state(TimingPolicy(trigger=standup)),
        "cron, jitter": _state(TimingPolicy(trigger=standup, jitter=Jitter(share=0.1))),
        "interval, 3 failures": _state(TimingPolicy(trigger=five_minutes, limits=limits), failures=3),
    }


def run() -> list[Result]:
    times = time_contenders({name: partial(decide, NOW, state) for name, state in _states().items()})
    print(format_table([(name, f"{1 / each:,.0f}/s") for name, each in times.items()]))
    mixed = len(times) / sum(times.values())
    return [Result(what="decisions, mixed", measured=f"{mixed:,.0f}/s", goal=f"{GOAL:,}/s", is_met=mixed >= GOAL)]
