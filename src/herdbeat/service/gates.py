"""The gates of a schedule as people see them: which there are, in the order the engine asks them, and which is shut."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.spend import Scope
from herdbeat.durations import spoken_duration
from herdbeat.scheduler.budget import Limit, Wallet, limits, next_day_at
from herdbeat.scheduler.gates import Gate as Name
from herdbeat.service.holds import is_paused
from herdbeat.service.objects import Json, moment_or_null

SCHEDULER = "scheduler"
"""Before all others: without a scheduler, nobody asks them."""

SHARED: Mapping[Scope, str] = {
    Scope.SCHEDULE: "",
    Scope.TARGET: ", shared by the schedules of its target",
    Scope.FLEET: ", shared by the whole fleet",
}
"""Whose budget it is, behind its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Something that can hold a run back, and whether it does. `opens_at` is until when, if that is known."""

    gate: str
    ok: bool
    used: float | None = None
    most: float | None = None
    text: str = ""
    opens_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a schedule does not know itself: who runs here, under which labels, and what is left of its budgets."""

    is_served: bool
    labels: frozenset[str] = frozenset()
    wallet: Wallet | None = None


def gates_of(record: ScheduleRecord, around: Around, now: datetime) -> tuple[Gate, ...]:
    """Those that everybody has, and those that its policies set up."""
    asked = (_ASKED[name](record, around, now) for name in Name if name in _ASKED)
    return (Gate(gate=SCHEDULER, ok=around.is_served), *(gate for gate in asked if gate is not None))


def shut_words(gates: Iterable[Gate], now: datetime) -> Iterator[str]:
    """What the governor's trace does not say: gates that are asked only when a beat wants to start."""
    for gate in gates:
        if gate.ok:
            continue
        if gate.gate == Name.BUDGET and gate.opens_at is not None:
            left = spoken_duration(gate.opens_at - now)
            yield f"its budget is used up ({gate.text}); it opens again in {left}, until then beats are skipped"
        if gate.gate == Name.LABEL:
            give = f"give it to one: herdbeat up --label {gate.text}"
            yield f'no live node has the label "{gate.text}", so its beats are skipped; {give}'


def gate_object(gate: Gate) -> Json:
    found: Json = {"gate": gate.gate, "ok": gate.ok}
    if gate.most is not None:
        found |= {"used": gate.used, "max": gate.most}
    if gate.text:
        found["text"] = gate.text
    if gate.opens_at is not None:
        found["opens_at"] = moment_or_null(gate.opens_at)
    return found


def amount(name: str, number: float) -> str:
    """What a budget counts, as people write it: $0.25, 41,000 tokens, 3 runs."""
    if name == "usd_per_day":
        return f"${number:,.2f}".removesuffix(".00")
    return f"{number:,.0f}"


def _enabled(record: ScheduleRecord, around: Around, now: datetime) -> Gate:  # noqa: ARG001 - one shape for all
    return Gate(gate=Name.ENABLED, ok=record.enabled and record.disabled_by is None)


def _not_paused(record: ScheduleRecord, around: Around, now: datetime) -> Gate:  # noqa: ARG001
    return Gate(gate=Name.NOT_PAUSED, ok=not is_paused(record, now))


def _bounds(record: ScheduleRecord, around: Around, now: datetime) -> Gate | None:  # noqa: ARG001
    bounds = record.plan.policies.bounds
    if bounds.ends_at is None and bounds.starts_at is None and bounds.max_runs is None:
        return None
    has_begun = bounds.starts_at is None or bounds.starts_at <= now
    is_over = (bounds.ends_at is not None and bounds.ends_at < now) or (
        bounds.max_runs is not None and record.runs >= bounds.max_runs
    )
    used = None if bounds.max_runs is None else record.runs
    opens_at = None if has_begun else bounds.starts_at
    return Gate(gate=Name.BOUNDS, ok=has_begun and not is_over, used=used, most=bounds.max_runs, opens_at=opens_at)


def _not_running(record: ScheduleRecord, around: Around, now: datetime) -> Gate:  # noqa: ARG001
    return Gate(gate=Name.NOT_RUNNING, ok=record.running == 0)


def _active_hours(record: ScheduleRecord, around: Around, now: datetime) -> Gate | None:  # noqa: ARG001
    hours = record.plan.policies.active_hours
    if hours is None:
        return None
    is_open = hours.contains(now)
    opens_at = None if is_open else hours.next_opening(now)
    return Gate(gate=Name.ACTIVE_HOURS, ok=is_open, text=str(hours), opens_at=opens_at)


def _budget(record: ScheduleRecord, around: Around, now: datetime) -> Gate | None:
    if around.wallet is None:
        return None
    scope, limit = tightest(around.wallet)
    opens_at = next_day_at(now, record.plan.policies.zone) if limit.is_reached else None
    return Gate(
        gate=Name.BUDGET,
        ok=not limit.is_reached,
        used=limit.used,
        most=limit.most,
        text=used_words(scope, limit),
        opens_at=opens_at,
    )


def tightest(wallet: Wallet) -> tuple[Scope, Limit]:
    """Of several limits the one that is reached, else the one that comes closest; and whose it is."""
    found = [
        (purse.account.holder.scope, limit)
        for purse in wallet.purses
        for limit in limits(purse.budget, purse.spent, wallet.estimate)
    ]
    return max(found, key=lambda each: (each[1].is_reached, each[1].used / each[1].most if each[1].most else 1.0))


def used_words(scope: Scope, limit: Limit) -> str:
    """3/3 runs, shared by the whole fleet."""
    unit = {"tokens_per_day": " tokens", "runs_per_day": " runs"}.get(limit.name, "")
    return f"{amount(limit.name, limit.used)}/{amount(limit.name, limit.most)}{unit}{SHARED[scope]}"


def _label(record: ScheduleRecord, around: Around, now: datetime) -> Gate | None:  # noqa: ARG001
    wanted = record.plan.policies.runs_on
    return None if wanted is None else Gate(gate=Name.LABEL, ok=wanted in around.labels, text=wanted)


def _capacity(record: ScheduleRecord, around: Around, now: datetime) -> Gate:  # noqa: ARG001
    used, most = record.target_running, record.target_room
    return Gate(gate=Name.CAPACITY, ok=used < most, used=used, most=most)


def _precheck(record: ScheduleRecord, around: Around, now: datetime) -> Gate | None:  # noqa: ARG001
    """What it will say nobody knows before it is asked; that it is asked, people should."""
    argv = record.plan.policies.precheck
    return Gate(gate=Name.PRECHECK, ok=True, text=f"{argv[0]} is asked first") if argv else None


_ASKED: Mapping[Name, Callable[[ScheduleRecord, Around, datetime], Gate | None]] = {
    Name.ENABLED: _enabled,
    Name.NOT_PAUSED: _not_paused,
    Name.BOUNDS: _bounds,
    Name.NOT_RUNNING: _not_running,
    Name.ACTIVE_HOURS: _active_hours,
    Name.BUDGET: _budget,
    Name.LABEL: _label,
    Name.CAPACITY: _capacity,
    Name.PRECHECK: _precheck,
}
