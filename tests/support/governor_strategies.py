"""Hypothesis strategies for every state that the governor may get."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from herdbeat.domain.hint import Hint
from herdbeat.domain.policies import AUTOMATIC_SPREAD, ActiveHours, Backoff, Bounds, FirstRun, Jitter, Limits
from herdbeat.domain.timing import TimingPolicy
from herdbeat.domain.trigger import Trigger
from herdbeat.governor import Pause, ScheduleState
from herdbeat.triggers import Chat, Manual, Webhook
from herdbeat.triggers.cron import Cron
from herdbeat.triggers.delay import Delay
from herdbeat.triggers.interval import Interval

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia")
CRONS = (
    "* * * * *",
    "*/15 * * * *",
    "0 9 * * 1-5",
    "30 2 * * *",
    "0 0 1 * *",
    "0 12 L * *",
    "*/10 * * * * *",
    "0 0 29 2 *",
)

moments = st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))
spans = st.timedeltas(timedelta(seconds=1), timedelta(days=40))
zones = st.sampled_from(ZONES).map(ZoneInfo)


def triggers() -> st.SearchStrategy[Trigger]:
    crons = st.builds(Cron.parse, st.sampled_from(CRONS), zones)
    return st.one_of(
        st.builds(Interval, every=st.integers(1, 3_000_000).map(lambda seconds: timedelta(seconds=seconds))),
        crons,
        st.builds(Delay, run_at=moments),
        st.sampled_from([Webhook(), Chat(), Manual()]),
    )


def limits() -> st.SearchStrategy[Limits]:
    def ordered(pair: tuple[timedelta | None, timedelta | None]) -> Limits:
        low, high = pair
        if low is not None and high is not None:
            low, high = min(low, high), max(low, high)
        return Limits(at_least=low, at_most=high)

    return st.tuples(st.none() | spans, st.none() | spans).map(ordered)


def timings() -> st.SearchStrategy[TimingPolicy]:
    clock = st.times().map(lambda moment: time(moment.hour, moment.minute))
    return st.builds(
        TimingPolicy,
        trigger=triggers(),
        first_run=st.sampled_from(FirstRun),
        backoff=st.builds(Backoff, factor=st.integers(1, 10), max_failures=st.integers(0, 10)),
        jitter=st.none()
        | st.just(AUTOMATIC_SPREAD)
        | st.builds(Jitter, share=st.floats(0, 1, allow_nan=False))
        | st.builds(Jitter, span=spans),
        limits=limits(),
        bounds=st.builds(
            Bounds, starts_at=st.none() | moments, ends_at=st.none() | moments, max_runs=st.none() | st.integers(1, 3)
        ),
        active_hours=st.none() | st.builds(ActiveHours, opens=clock, closes=clock, zone=zones),
    )


def hints() -> st.SearchStrategy[Hint]:
    origins = st.sampled_from(["human:you", "agent:triage", "rule:surge", "planner"])
    created = st.none() | moments
    paces = st.builds(
        Hint, origin=origins, every=spans, expires_at=moments, created_at=created, reason=st.text(max_size=5)
    )
    return paces | st.builds(Hint, origin=origins, at=moments, expires_at=moments, created_at=created)


def pauses() -> st.SearchStrategy[Pause]:
    return st.builds(
        Pause, until=st.none() | moments, by=st.sampled_from(["", "human:you"]), reason=st.text(max_size=5)
    )


states = st.builds(
    ScheduleState,
    schedule=st.sampled_from(["api/health", "triage/standup"]),
    timing=timings(),
    anchor_at=moments,
    is_new=st.booleans(),
    failures=st.integers(0, 12),
    runs=st.integers(0, 4),
    hints=st.lists(hints(), max_size=4).map(tuple),
    pause=st.none() | pauses(),
    enabled=st.booleans(),
)


@st.composite
def decision_inputs(draw: st.DrawFn) -> tuple[datetime, ScheduleState]:
    """Return a `now` and a state whose anchor is not in the future, as the store guarantees."""
    state, now = draw(states), draw(moments)
    return max(now, state.anchor_at), state
