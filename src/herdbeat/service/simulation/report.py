"""The report of a simulation: what the fleet would do in that time, per schedule and in all."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.schedule import Schedule
from herdbeat.service.queries.expressions import iter_trigger_runs
from herdbeat.service.serialize import JsonObject
from herdbeat.service.simulation.engine import SimulatedLedger, SimulationSettings
from herdbeat.service.simulation.run_model import ProfileSource, RunProfile
from herdbeat.service.simulation.tally import ScheduleTally
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.cron import Cron

MAX_CLOCK_CHANGE_INSTANTS = 50
"""Instants around clock changes that a report names."""

MAX_SEARCHED_INSTANTS = 500
"""Instants of one schedule that are looked at around one clock change."""

_AROUND_CHANGE = timedelta(hours=26)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSchedule:
    """The outcome of one schedule. `beats` counts due instants; each has one of the outcomes below it.

    `runs` counts attempts, `limited` those that a usage limit refused. `cost_usd` is None if it is not known what a run
    costs. Lateness is that of starts which had to wait: for room, an account, an earlier run or their place.
    """

    schedule: str
    kind: str
    profile: ProfileSource
    beats: int
    ran: int
    missed: int
    skipped: int
    merged: int
    pending: int
    running: int
    runs: int
    failed: int
    limited: int
    reasons: Mapping[str, int]
    cost_usd: float | None
    busy_s: float
    late_runs: int
    late_p50_s: float
    late_max_s: float
    capacity_waits: int
    budget_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTotals:
    beats: int
    runs: int
    failed: int
    missed: int
    skipped: int
    merged: int
    cost_usd: float | None
    unknown_costs: int
    late_runs: int
    late_max_s: float
    most_active: int
    capacity_waits: int
    collision_seconds: int
    budget_days: int
    usage_limit_holds: int
    usage_limit_hold_s: float


@dataclass(frozen=True, slots=True)
class SharedSecond:
    """A second in which several schedules start, with the first of their names."""

    at: datetime
    starts: int
    schedules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClockChangeInstant:
    """An instant that a clock change moves, drops or doubles."""

    at: datetime
    schedule: str
    zone: str
    note: str


@dataclass(frozen=True, slots=True)
class SimulatedDay:
    """Starts per hour of one day, by the fleet's clock."""

    day: date
    starts: tuple[int, ...]
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    fleet: str
    start: datetime
    until: datetime
    seed: int
    zone: ZoneInfo
    schedules: tuple[SimulatedSchedule, ...]
    totals: SimulationTotals
    collisions: tuple[SharedSecond, ...]
    odd_nights: tuple[ClockChangeInstant, ...]
    days: tuple[SimulatedDay, ...]


def build_report(
    fleet: Fleet, profiles: Mapping[str, RunProfile], settings: SimulationSettings, ledger: SimulatedLedger
) -> SimulationReport:
    tally = ledger.tally
    tally.close()
    outcomes: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for (schedule_id, outcome, reason), count in ledger.outcomes.items():
        outcomes[schedule_id][outcome, reason] += count
    kinds = {target.name: str(target.spec.kind) for target in fleet.targets}
    budget_days = _count_budget_days(fleet, ledger)
    schedules = tuple(
        _build_schedule(
            schedule,
            kinds[schedule.target],
            profiles[schedule.id],
            tally.schedules.get(number) or ScheduleTally(),
            outcomes[number],
            budget_days.get(number, 0),
        )
        for schedule in fleet.schedules
        for number in (ledger.schedule_ids[schedule.id],)
    )
    labels = {ledger.schedule_ids[schedule.id]: schedule.label for schedule in fleet.schedules}
    return SimulationReport(
        fleet=fleet.name,
        start=settings.start,
        until=settings.until,
        seed=settings.seed,
        zone=fleet.zone,
        schedules=schedules,
        totals=_sum_up(schedules, ledger, settings.until),
        collisions=tuple(
            SharedSecond(each.at, each.starts, tuple(labels[number] for number in each.schedule_ids))
            for each in tally.collisions
        ),
        odd_nights=tuple(_find_clock_change_instants(fleet.schedules, settings))[:MAX_CLOCK_CHANGE_INSTANTS],
        days=_build_days(fleet.zone, settings, ledger),
    )


def _build_schedule(
    schedule: Schedule,
    kind: str,
    profile: RunProfile,
    counted: ScheduleTally,
    outcomes: Counter[tuple[str, str]],
    budget_days: int,
) -> SimulatedSchedule:
    by_outcome: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for (outcome, reason), count in outcomes.items():
        by_outcome[outcome] += count
        if outcome in (BeatOutcome.SKIPPED, BeatOutcome.MISSED, BeatOutcome.MERGED):
            reasons[reason] += count
    lateness = sorted(counted.lateness)
    knows_cost = profile.usd is not None or any(run.usd is not None for run in profile.recorded)
    return SimulatedSchedule(
        schedule=schedule.label,
        kind=kind,
        profile=profile.source,
        beats=sum(by_outcome.values()),
        ran=by_outcome[BeatOutcome.RAN],
        missed=by_outcome[BeatOutcome.MISSED],
        skipped=by_outcome[BeatOutcome.SKIPPED],
        merged=by_outcome[BeatOutcome.MERGED],
        pending=by_outcome[BeatOutcome.PENDING],
        running=by_outcome[BeatOutcome.RUNNING],
        runs=counted.runs,
        failed=counted.failed,
        limited=counted.limited,
        reasons=dict(sorted(reasons.items())),
        cost_usd=round(counted.usd, 4) if knows_cost else None,
        busy_s=round(counted.busy.total_seconds(), 3),
        late_runs=len(lateness),
        late_p50_s=round(lateness[len(lateness) // 2], 3) if lateness else 0.0,
        late_max_s=round(lateness[-1], 3) if lateness else 0.0,
        capacity_waits=counted.waits[SkipReason.AT_CAPACITY],
        budget_days=budget_days,
    )


def _sum_up(schedules: Sequence[SimulatedSchedule], ledger: SimulatedLedger, until: datetime) -> SimulationTotals:
    costs = [each.cost_usd for each in schedules if each.cost_usd is not None]
    held = sum((min(hold.until, until) - hold.began_at for hold in ledger.holds), timedelta(0))
    return SimulationTotals(
        beats=sum(each.beats for each in schedules),
        runs=sum(each.runs for each in schedules),
        failed=sum(each.failed for each in schedules),
        missed=sum(each.missed for each in schedules),
        skipped=sum(each.skipped for each in schedules),
        merged=sum(each.merged for each in schedules),
        cost_usd=round(sum(costs), 4) if costs else None,
        unknown_costs=sum(each.cost_usd is None for each in schedules),
        late_runs=sum(each.late_runs for each in schedules),
        late_max_s=max((each.late_max_s for each in schedules), default=0.0),
        most_active=ledger.tally.most_active,
        capacity_waits=sum(each.capacity_waits for each in schedules),
        collision_seconds=ledger.tally.collision_seconds,
        budget_days=sum(each.budget_days for each in schedules),
        usage_limit_holds=len(ledger.holds),
        usage_limit_hold_s=round(held.total_seconds(), 3),
    )


def _count_budget_days(fleet: Fleet, ledger: SimulatedLedger) -> dict[int, int]:
    """Return on how many days a budget stopped each schedule, by the clock of its zone."""
    zones = {ledger.schedule_ids[schedule.id]: schedule.policies.zone for schedule in fleet.schedules}
    days: dict[int, set[date]] = defaultdict(set)
    for schedule_id, first, last in ledger.budget_ranges:
        day, end = (at.astimezone(zones[schedule_id]).date() for at in (first, last))
        while day <= end:
            days[schedule_id].add(day)
            day += timedelta(days=1)
    return {schedule_id: len(found) for schedule_id, found in days.items()}


def _find_clock_change_instants(
    schedules: Sequence[Schedule], settings: SimulationSettings
) -> Iterator[ClockChangeInstant]:
    """Yield the instants of cron schedules that a clock change concerns."""
    for schedule in schedules:
        trigger = schedule.trigger
        if not isinstance(trigger, Cron):
            continue
        for change in _find_clock_changes(trigger.zone, settings.start, settings.until):
            start = max(settings.start, change - _AROUND_CHANGE)
            for number, run in enumerate(iter_trigger_runs(trigger, start)):
                if run.due_at > change + _AROUND_CHANGE or number >= MAX_SEARCHED_INSTANTS:
                    break
                if run.due_at < settings.until:
                    yield from (
                        ClockChangeInstant(run.due_at, schedule.label, str(trigger.zone), note) for note in run.notes
                    )


def _find_clock_changes(zone: ZoneInfo, start: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the first hour after each change of the zone's offset."""
    before, hour = start.astimezone(zone).utcoffset(), timedelta(hours=1)
    moment = start + hour
    while moment < until + hour:
        offset = moment.astimezone(zone).utcoffset()
        if offset != before:
            yield moment
        before, moment = offset, moment + hour


def _build_days(zone: ZoneInfo, settings: SimulationSettings, ledger: SimulatedLedger) -> tuple[SimulatedDay, ...]:
    starts: dict[date, list[int]] = defaultdict(lambda: [0] * 24)
    for hour, count in ledger.tally.starts_by_hour.items():
        local = hour.astimezone(zone)
        starts[local.date()][local.hour] += count
    costs: dict[date, float] = defaultdict(float)
    for hour, usd in ledger.tally.usd_by_hour.items():
        costs[hour.astimezone(zone).date()] += usd
    first, last = (at.astimezone(zone).date() for at in (settings.start, settings.until - timedelta(microseconds=1)))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return tuple(SimulatedDay(day, tuple(starts[day]), round(costs[day], 4)) for day in days)


def serialize_simulation(report: SimulationReport) -> JsonObject:
    """Return the report as the JSON object of `simulate --json`."""
    return {
        "fleet": report.fleet,
        "from": format_timestamp(report.start),
        "until": format_timestamp(report.until),
        "seed": report.seed,
        "timezone": str(report.zone),
        "schedules": [asdict(each) for each in report.schedules],
        "totals": asdict(report.totals),
        "collisions": [
            {"at": format_timestamp(each.at), "starts": each.starts, "schedules": list(each.schedules)}
            for each in report.collisions
        ],
        "odd_nights": [
            {"at": format_timestamp(each.at), "schedule": each.schedule, "timezone": each.zone, "note": each.note}
            for each in report.odd_nights
        ],
        "days": [
            {"day": each.day.isoformat(), "starts_by_hour": list(each.starts), "cost_usd": each.cost_usd}
            for each in report.days
        ],
    }
