"""The next instant of a cron expression, beside bare cronsim, croniter and APScheduler 3.

Two cases: the next instant of an existing trigger, and parsing an expression plus its first instant. Ours caches
parsed expressions; in the second case the cache is cleared before every call.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from bench.timing import Call, Result, format_table, time_contenders
from herdbeat.triggers import Cron
from herdbeat.triggers.cron.parser import parse_expression

EXPRESSIONS = (
    "* * * * *",
    "*/15 * * * *",
    "0 * * * *",
    "0 9 * * *",
    "0 9 * * MON-FRI",
    "*/10 9-17 * * MON-FRI",
    "30 2 1 * *",
    "0 0 29 2 *",
    "* * * * * *",
)
ZONES = ("UTC", "Europe/Berlin")
START = datetime(2026, 1, 5, tzinfo=UTC)
COMPARED_INSTANTS = 3
"""Number of first instants that are compared before timing: a wrong result is always the fastest."""

# For each peer, the largest ratio of our time to its time.
NEXT_GOALS = {"cronsim": 1.1, "croniter": 1 / 3, "APScheduler": 1.0}
READ_GOALS = {"cronsim": 1.5, "croniter": 1 / 3, "APScheduler": 1.0}


@dataclass(frozen=True, slots=True)
class Case:
    expression: str
    zone: ZoneInfo

    def __str__(self) -> str:
        return f"{self.expression}  {self.zone.key}"


def run() -> list[Result]:
    cases = [Case(expression, ZoneInfo(zone)) for expression in EXPRESSIONS for zone in ZONES]
    results: list[Result] = []
    for question, contenders, goals in (("next", stepping, NEXT_GOALS), ("read and next", parsing, READ_GOALS)):
        times = {str(case): time_contenders(contenders(case)) for case in _with_progress(question, cases)}
        print(_details(question, times))
        results += [_result(question, peer, goal, times) for peer, goal in goals.items()]
    return results


def stepping(case: Case) -> dict[str, Call]:
    """Build contenders that have already parsed the expression and step from instant to instant."""
    contenders = {
        "herdbeat": _ours(case),
        "cronsim": _cronsim(case),
        "croniter": _croniter(case),
        "APScheduler": _apscheduler(case),
    }
    firsts = {name: [_utc(call()) for _ in range(COMPARED_INSTANTS)] for name, call in contenders.items()}
    assert all(each == firsts["herdbeat"] for each in firsts.values()), (case, firsts)
    return contenders


def parsing(case: Case) -> dict[str, Call]:
    """Build contenders that parse the expression in every call and return the first instant."""

    def ours() -> object:
        parse_expression.cache_clear()
        return Cron.parse(case.expression, case.zone).next_time(None, START)

    return {
        "herdbeat": ours,
        "cronsim": _rebuild(_cronsim, case),
        "croniter": _rebuild(_croniter, case),
        "APScheduler": _rebuild(_apscheduler, case),
    }


def _rebuild(build: Callable[[Case], Call], case: Case) -> Call:
    return lambda: build(case)()  # noqa: PLW0108 -- the build is part of what is measured


def _ours(case: Case) -> Call:
    cron = Cron.parse(case.expression, case.zone)
    now = START

    def step() -> object:
        nonlocal now
        instant = cron.next_time(None, now)
        now = START if instant is None else instant
        return now

    return step


def _cronsim(case: Case) -> Call:
    # cronsim has a fast path for datetime.timezone.utc, so it gets that.
    zone = UTC if case.zone.key == "UTC" else case.zone
    iterator = CronSim(case.expression, START.astimezone(zone))
    return iterator.__next__


def _croniter(case: Case) -> Call:
    iterator = croniter(case.expression, START.astimezone(case.zone), second_at_beginning=True)
    step: Callable[[type], object] = iterator.get_next
    return lambda: step(datetime)


def _apscheduler(case: Case) -> Call:
    names = ("second", "minute", "hour", "day", "month", "day_of_week")
    fields = case.expression.split()
    written = dict(zip(names[-len(fields) :], fields, strict=True))
    trigger = CronTrigger(**{"second": "0", **written}, timezone=case.zone)
    now = START

    def step() -> object:
        nonlocal now
        now = trigger.get_next_fire_time(now, now)
        return now

    return step


def _utc(moment: object) -> datetime:
    assert isinstance(moment, datetime)
    return moment.astimezone(UTC)


def _with_progress(question: str, cases: list[Case]) -> Iterator[Case]:
    for at, case in enumerate(cases, start=1):
        print(f"{question} {at:2} of {len(cases)}  {case}", flush=True)
        yield case


def _details(question: str, times: dict[str, dict[str, float]]) -> str:
    """Format a table of microseconds per call."""
    names = list(next(iter(times.values())))
    rows = [(f"{question}, µs per call", *names)]
    rows += [(case, *(f"{each * 1e6:.2f}" for each in row.values())) for case, row in times.items()]
    return format_table(rows)


def _result(question: str, peer: str, goal: float, times: dict[str, dict[str, float]]) -> Result:
    ratios = {case: row["herdbeat"] / row[peer] for case, row in times.items()}
    middle, worst = median(ratios.values()), max(ratios.values())
    return Result(
        what=f"{question}, part of {peer}'s time",
        measured=f"median {middle:.2f}, worst {worst:.2f} ({max(ratios, key=lambda case: ratios[case])})",
        goal=f"at most {goal:.2f}",
        is_met=worst <= goal,
    )
