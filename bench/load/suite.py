"""The steps of `python -m bench.load`. Each runs in a store of its own."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.load.backlog import measure_backlog
from bench.load.child_processes import measure_child_processes
from bench.load.disk import measure_disk
from bench.load.lateness import Load, measure_fresh_store
from bench.load.run_monitor import Percentiles
from bench.load.throughput import measure_throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSize:
    """The size of each step. The defaults take about a minute."""

    beats: int = 10_000
    seconds: float = 5
    warm_up: float = 1
    stored: int = 10_000
    waiting: int = 20_000
    rates: tuple[int, ...] = (100, 1_000)
    starts: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One line of the output. An empty `goal` means that the figure is only printed."""

    name: str
    measured: str
    values: Mapping[str, float]
    goal: str = ""
    is_met: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A named measurement. It gets a folder of its own."""

    name: str
    measure: Callable[[Path], StepResult]


def build_steps(size: SuiteSize) -> list[Step]:
    load = Load(rate=size.rates[0], seconds=size.seconds, warm_up=size.warm_up, stored=size.stored)
    return [
        Step(name="disk", measure=_disk),
        Step(name="throughput", measure=lambda folder: _throughput(folder, size.beats)),
        *_lateness_steps(size),
        Step(name="backlog", measure=lambda folder: _backlog(folder, load, size.waiting)),
        Step(name="children", measure=lambda folder: _children(folder, load, size.starts)),
    ]


def run_steps(steps: list[Step], folder: Path, on_progress: Callable[[Step, int], None]) -> Iterator[StepResult]:
    """Yield one result after another. `on_progress` is called with each step and its position before it begins."""
    for position, step in enumerate(steps):
        on_progress(step, position)
        step_folder = folder / str(position)
        step_folder.mkdir()
        yield step.measure(step_folder)


def _disk(folder: Path) -> StepResult:
    measured = measure_disk(folder)
    return StepResult(name="disk: one durable write", measured=_format_percentiles(measured), values=asdict(measured))


def _throughput(folder: Path, beats: int) -> StepResult:
    rate = asyncio.run(measure_throughput(folder, beats)).per_second
    return StepResult(
        name=f"throughput: {beats:,} due at once",
        measured=f"{rate:,.0f} beats/s",
        values={"beats_per_second": rate},
        goal="10,000 beats/s",
        is_met=rate >= 10_000,
    )


def _lateness_steps(size: SuiteSize) -> Iterator[Step]:
    for rate in size.rates:
        load = Load(rate=rate, seconds=size.seconds, warm_up=size.warm_up, stored=size.stored)
        yield Step(name=f"lateness at {rate:,}/s", measure=lambda folder, load=load: _lateness(folder, load))  # type: ignore[misc]


def _lateness(folder: Path, load: Load) -> StepResult:
    measured = asyncio.run(measure_fresh_store(folder, load))
    return StepResult(
        name=f"lateness at {load.rate:,} beats/s, {load.stored:,} stored",
        measured=_format_percentiles(measured),
        values=asdict(measured),
        goal="p50 2 ms, p99 10 ms",
        is_met=measured.p50 <= 2 and measured.p99 <= 10,
    )


def _backlog(folder: Path, load: Load, waiting: int) -> StepResult:
    measured = asyncio.run(measure_backlog(folder, load, waiting))
    return StepResult(
        name=f"lateness beside {waiting:,} that wait for another target",
        measured=_format_percentiles(measured.burdened),
        values=asdict(measured.burdened) | {"p99_alone": measured.alone.p99},
        goal=f"p99 as alone: {measured.alone.p99:.1f} ms",
        is_met=measured.burdened.p99 <= 1.5 * measured.alone.p99,
    )


def _children(folder: Path, load: Load, starts: int) -> StepResult:
    measured = asyncio.run(measure_child_processes(folder, load, starts))
    return StepResult(
        name=f"lateness beside {starts:,} commands/s",
        measured=_format_percentiles(measured.burdened),
        values=asdict(measured.burdened) | {"p99_alone": measured.alone.p99},
        goal="p99 20 ms",
        is_met=measured.burdened.p99 <= 20,
    )


def _format_percentiles(measured: Percentiles) -> str:
    return f"p50 {measured.p50:.1f} ms, p99 {measured.p99:.1f} ms"
