"""What `python -m bench.load` measures, one step after another, each in a store of its own."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.load.backlog import backlog
from bench.load.children import children
from bench.load.disk import disk
from bench.load.lateness import Load, lateness
from bench.load.throughput import throughput
from bench.load.watch import Percentiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything: about a minute as it stands."""

    beats: int = 10_000
    seconds: float = 5
    warm_up: float = 1
    stored: int = 10_000
    waiting: int = 20_000
    rates: tuple[int, ...] = (100, 1_000)
    starts: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the answer. `goal` is what we promise ourselves, in words; without one it is only told."""

    name: str
    measured: str
    values: Mapping[str, float]
    goal: str = ""
    is_met: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to measure, in a folder that nobody else uses."""

    name: str
    measure: Callable[[Path], Finding]


def steps(size: Size) -> list[Step]:
    load = Load(rate=size.rates[0], seconds=size.seconds, warm_up=size.warm_up, stored=size.stored)
    return [
        Step(name="disk", measure=_disk),
        Step(name="throughput", measure=lambda folder: _throughput(folder, size.beats)),
        *_lateness_steps(size),
        Step(name="backlog", measure=lambda folder: _backlog(folder, load, size.waiting)),
        Step(name="children", measure=lambda folder: _children(folder, load, size.starts)),
    ]


def measure(todo: list[Step], folder: Path, tell: Callable[[Step, int], None]) -> Iterator[Finding]:
    """One finding after another; `tell` hears which step begins, and its place."""
    for place, step in enumerate(todo):
        tell(step, place)
        own = folder / str(place)
        own.mkdir()
        yield step.measure(own)


def _disk(folder: Path) -> Finding:
    found = disk(folder)
    return Finding(name="disk: one durable write", measured=_times(found), values=asdict(found))


def _throughput(folder: Path, beats: int) -> Finding:
    rate = asyncio.run(throughput(folder, beats)).per_second
    return Finding(
        name=f"throughput: {beats:,} due at once",
        measured=f"{rate:,.0f} beats/s",
        values={"beats_per_second": rate},
        goal="10,000 beats/s",
        is_met=rate >= 10_000,
    )


def _lateness_steps(size: Size) -> Iterator[Step]:
    for rate in size.rates:
        load = Load(rate=rate, seconds=size.seconds, warm_up=size.warm_up, stored=size.stored)
        yield Step(name=f"lateness at {rate:,}/s", measure=lambda folder, load=load: _lateness(folder, load))  # type: ignore[misc]


def _lateness(folder: Path, load: Load) -> Finding:
    found = asyncio.run(lateness(folder, load))
    return Finding(
        name=f"lateness at {load.rate:,} beats/s, {load.stored:,} stored",
        measured=_times(found),
        values=asdict(found),
        goal="p50 2 ms, p99 10 ms",
        is_met=found.p50 <= 2 and found.p99 <= 10,
    )


def _backlog(folder: Path, load: Load, waiting: int) -> Finding:
    found = asyncio.run(backlog(folder, load, waiting))
    return Finding(
        name=f"lateness beside {waiting:,} that wait for another target",
        measured=_times(found.burdened),
        values=asdict(found.burdened) | {"p99_alone": found.alone.p99},
        goal=f"p99 as alone: {found.alone.p99:.1f} ms",
        is_met=found.burdened.p99 <= 1.5 * found.alone.p99,
    )


def _children(folder: Path, load: Load, starts: int) -> Finding:
    found = asyncio.run(children(folder, load, starts))
    return Finding(
        name=f"lateness beside {starts:,} commands/s",
        measured=_times(found.burdened),
        values=asdict(found.burdened) | {"p99_alone": found.alone.p99},
        goal="p99 20 ms",
        is_met=found.burdened.p99 <= 20,
    )


def _times(found: Percentiles) -> str:
    return f"p50 {found.p50:.1f} ms, p99 {found.p99:.1f} ms"
