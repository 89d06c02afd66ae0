"""Charts as SVG, drawn on the server. Pure: values in, markup out.

Colours are classes of the style sheet, so that light and dark need one drawing. Each chart has a table beside it for
those who cannot see it; `alt` texts say what the chart shows in one sentence.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from statistics import median
from typing import Protocol

from herdbeat.dashboard.svg import SvgWriter
from herdbeat.durations import format_elapsed, humanize_short

WIDTH = 960.0
STRIP_MARKS = 60
"""Beats in the strip of a schedule."""

MAX_LINEAR_RATIO = 20
"""How many times longer than the median the longest run of a linear axis has taken."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 8.0, 8.0, 18.0
_MIN_BAR = 1.5
"""Width of the shortest bar: a run of a millisecond must be visible in a chart of a day."""
_PLANNED_WIDTH = 7.0
"""Width of a planned run, whose duration is not known."""
_TICK_STEPS = tuple(
    timedelta(seconds=seconds)
    for seconds in (
        0.01,
        0.05,
        0.1,
        0.5,
        1,
        5,
        10,
        30,
        60,
        300,
        600,
        900,
        1_800,
        3_600,
        7_200,
        14_400,
        21_600,
        43_200,
        86_400,
        604_800,
    )
)


class MarkState(StrEnum):
    """How a beat, a run or a bar is painted. The names are classes of the style sheet."""

    OK = "ok"
    FAILED = "failing"
    RUNNING = "running"
    SKIPPED = "skipped"
    MISSED = "missed"
    WAITING = "late"
    PLANNED = "planned"
    BUSY = "busy"  # more runs than can be shown apart


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """What the horizontal axis shows."""

    start: datetime
    end: datetime

    def position(self, at: datetime, width: float) -> float:
        """Return the horizontal place of an instant; what lies outside is put at the edge."""
        share = (at - self.start) / (self.end - self.start)
        return min(max(share, 0.0), 1.0) * width


@dataclass(frozen=True, slots=True)
class Point:
    at: datetime
    value: float
    title: str = ""
    state: MarkState = MarkState.OK


@dataclass(frozen=True, slots=True)
class Band:
    """A span of time with a meaning, such as a hint in force."""

    start: datetime
    end: datetime
    label: str


@dataclass(frozen=True, slots=True)
class Threshold:
    """A horizontal line at a value that a rule compares with."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A run in a row of the timeline, or a step of a run."""

    start: datetime
    end: datetime
    state: MarkState
    title: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the timeline. A heading names the rows below it."""

    label: str
    bars: tuple[Bar, ...]
    link: str = ""
    is_heading: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A vertical line of the timeline: a change of the configuration, a node that was lost."""

    at: datetime
    label: str


def draw_strip(marks: Sequence[MarkState], alt: str) -> str:
    """Draw the newest beats, the newest on the right. State is shape and height, not colour alone.

    Marks of one state are one path: a page of 50 strips has 3,000 marks, and an element for each was half of the page.
    """
    step, height = 5, 20
    svg = SvgWriter(STRIP_MARKS * step, height, alt, "strip")
    shown = marks[-STRIP_MARKS:]
    offset = STRIP_MARKS - len(shown)
    if offset:  # beats that have not been yet: a new schedule has a place for them
        bottom = height - 1.5
        svg.add(
            "line",
            class_="slots",
            stroke_width=3,
            stroke_dasharray="4 1",
            x1=0,
            x2=offset * step,
            y1=bottom,
            y2=bottom,
        )
    paths: dict[MarkState, list[str]] = {}
    for index, state in enumerate(shown, start=offset):
        tall = _mark_height(state, height)
        paths.setdefault(state, []).append(f"M{index * step} {height - tall}h4v{tall}h-4z")
    for state, path in paths.items():
        svg.add("path", class_=f"mark {state}", d="".join(path))
    return svg.finish()


def _mark_height(state: MarkState, height: int) -> int:
    """Return the height of a mark: skipped ones are low, missed ones a line at the bottom."""
    shares = {MarkState.SKIPPED: 0.4, MarkState.MISSED: 0.15, MarkState.WAITING: 0.6, MarkState.RUNNING: 0.8}
    return round(height * shares.get(state, 1.0))


def draw_cadence(points: Sequence[Point], bands: Sequence[Band], span: ChartSpan, zone: tzinfo, alt: str) -> str:
    """Draw the distance between runs in seconds, as steps on a logarithmic axis, with the hints in force as bands."""
    height = 110.0
    svg = SvgWriter(WIDTH, height, alt, "chart cadence")
    low, high = _find_logarithmic_range([point.value for point in points])
    plot = _Plot(svg, span, zone, height, low=low, high=high, is_logarithmic=True)
    plot.draw_bands(bands)
    plot.draw_value_axis(_list_decades(low, high), lambda value: humanize_short(timedelta(seconds=value)))
    plot.draw_time_axis()
    plot.draw_steps(points)
    return svg.finish()


def draw_durations(
    points: Sequence[Point], usual: tuple[float, float] | None, span: ChartSpan, zone: tzinfo, alt: str
) -> str:
    """Draw how long runs took, in seconds, with the usual range as a band."""
    height = 110.0
    svg = SvgWriter(WIDTH, height, alt, "chart durations")
    values = [point.value for point in points]
    high = max(values + ([usual[1]] if usual else []), default=1.0) or 1.0
    # One slow run would press all the others onto the ground: then the axis is logarithmic.
    is_logarithmic = bool(values) and high > MAX_LINEAR_RATIO * median(values)
    low, top = _find_logarithmic_range(values) if is_logarithmic else (0.0, high * 1.1)
    plot = _Plot(svg, span, zone, height, low=low, high=top, is_logarithmic=is_logarithmic)
    if usual is not None:
        plot.draw_value_band(usual)
    ticks = _list_decades(low, top) if is_logarithmic else choose_round_values(0.0, high)
    plot.draw_value_axis(ticks, lambda value: format_elapsed(timedelta(seconds=value)))
    plot.draw_time_axis()
    plot.draw_dots(points)
    return svg.finish()


def draw_field(
    points: Sequence[Point], thresholds: Sequence[Threshold], span: ChartSpan, zone: tzinfo, alt: str
) -> str:
    """Draw one field of the responses, with the values that rules compare it with: why the pace has changed."""
    height = 140.0
    svg = SvgWriter(WIDTH, height, alt, "chart field")
    values = [point.value for point in points] + [threshold.value for threshold in thresholds]
    low, high = min([0.0, *values]), max([0.0, *values])
    plot = _Plot(svg, span, zone, height, low=low, high=high + (high - low or 1.0) * 0.1)
    plot.draw_value_axis(choose_round_values(low, high), format_value)
    plot.draw_time_axis()
    plot.draw_line(points)
    plot.draw_thresholds(thresholds)
    return svg.finish()


def draw_timeline(
    rows: Sequence[Row],
    events: Sequence[Event],
    span: ChartSpan,
    now: datetime,
    zone: tzinfo,
    alt: str,
    *,
    is_elapsed: bool = False,
) -> str:
    """Draw runs as bars, one row each; what is planned is dashed, and a line shows the present.

    `is_elapsed` counts the time from the start of the chart. A name leads to its schedule, a bar to its run; only names
    are stops of the Tab key, because there are thousands of bars and the table beside the chart has them too.
    """
    row_height, left = 22.0, 190.0
    height = _TOP + max(1, len(rows)) * row_height + _BOTTOM
    svg = SvgWriter(WIDTH, height, alt, "chart timeline", has_links=any(row.link for row in rows))
    plot = _Plot(svg, span, zone, height, left=left)
    plot.draw_time_axis(is_elapsed=is_elapsed)
    for index, row in enumerate(rows):
        _draw_row(svg, plot, row, _TOP + index * row_height, row_height)
    for event in events:
        x = plot.x(event.at)
        svg.add_titled("line", event.label, class_="event", x1=x, x2=x, y1=_TOP, y2=height - _BOTTOM)
    if span.start <= now <= span.end:
        x = plot.x(now)
        svg.add_titled("line", "now", class_="now", x1=x, x2=x, y1=0, y2=height - _BOTTOM)
    return svg.finish()


def draw_waterfall(rows: Sequence[Row], span: ChartSpan, zone: tzinfo, alt: str) -> str:
    """Draw the steps of one run below each other, by the time since its start."""
    return draw_timeline(rows, (), span, span.end + timedelta(days=1), zone, alt, is_elapsed=True)


def _draw_row(svg: SvgWriter, plot: "_Plot", row: Row, top: float, height: float) -> None:
    label = row.label if len(row.label) <= 28 else f"{row.label[:13]}…{row.label[-13:]}"
    svg.add("line", class_="grid", x1=plot.left, x2=WIDTH - _RIGHT, y1=top + height, y2=top + height)
    drawn: set[tuple[int, MarkState]] = set()
    for bar in row.bars:
        if not plot.shows(bar.start, bar.end):
            continue
        x = plot.x(bar.start)
        width = max(_PLANNED_WIDTH if bar.state is MarkState.PLANNED else _MIN_BAR, plot.x(bar.end) - x)
        # Hundreds of short runs share a pixel: one bar of each state there says as much, in a tenth of the bytes.
        place = (round(x / (2 * _MIN_BAR)), bar.state)
        if width <= 2 * _MIN_BAR and place in drawn:
            continue
        drawn.add(place)
        svg.add_bar(bar.state, bar.title, x=x, y=top + 5, width=width, height=height - 9, href=bar.link)
    # Above the bars: on a phone the name stays where it is while they move below it.
    with svg.link(row.link):
        svg.add("text", label, class_="row-heading" if row.is_heading else "row-label", x=0, y=top + height * 0.65)


class _Plot:
    """The area between the axes: turns instants and values into coordinates."""

    def __init__(
        self,
        svg: SvgWriter,
        span: ChartSpan,
        zone: tzinfo,
        height: float,
        *,
        low: float = 0.0,
        high: float = 1.0,
        is_logarithmic: bool = False,
        left: float = _LEFT,
    ) -> None:
        self.left = left
        self._svg = svg
        self._span = span
        self._zone = zone
        self._height = height
        self._low, self._high = (math.log(low), math.log(high)) if is_logarithmic else (low, high)
        self._is_logarithmic = is_logarithmic

    def x(self, at: datetime) -> float:
        return self.left + self._span.position(at, WIDTH - self.left - _RIGHT)

    def shows(self, start: datetime, end: datetime) -> bool:
        """Whether some of it is on the chart. At the edge, what is planned for tomorrow would look like now."""
        return start <= self._span.end and end >= self._span.start

    def y(self, value: float) -> float:
        scaled = math.log(max(value, 1e-9)) if self._is_logarithmic else value
        share = (scaled - self._low) / (self._high - self._low or 1.0)
        return self._height - _BOTTOM - min(max(share, 0.0), 1.0) * (self._height - _TOP - _BOTTOM)

    def draw_time_axis(self, *, is_elapsed: bool = False) -> None:
        bottom = self._height - _BOTTOM
        for at, text in build_elapsed_ticks(self._span) if is_elapsed else build_time_ticks(self._span, self._zone):
            x = self.x(at)
            self._svg.add("line", class_="grid", x1=x, x2=x, y1=_TOP, y2=bottom)
            anchor = "end" if x > WIDTH - 40 else "middle"
            self._svg.add("text", text, class_="tick", x=x, y=self._height - 4, text_anchor=anchor)

    def draw_value_axis(self, values: Iterable[float], text_of: "Formatter") -> None:
        for value in values:
            y = self.y(value)
            self._svg.add("line", class_="grid", x1=self.left, x2=WIDTH - _RIGHT, y1=y, y2=y)
            self._svg.add("text", text_of(value), class_="tick value", x=self.left - 6, y=y + 3, text_anchor="end")

    def draw_bands(self, bands: Iterable[Band]) -> None:
        for band in bands:
            x = self.x(band.start)
            width = max(_MIN_BAR, self.x(band.end) - x)
            self._svg.add_titled(
                "rect", band.label, class_="band", x=x, y=_TOP, width=width, height=self._height - _TOP - _BOTTOM
            )

    def draw_value_band(self, values: tuple[float, float]) -> None:
        top, bottom = self.y(values[1]), self.y(values[0])
        width = WIDTH - self.left - _RIGHT
        self._svg.add_titled(
            "rect", "usual range", class_="band", x=self.left, y=top, width=width, height=max(_MIN_BAR, bottom - top)
        )

    def draw_steps(self, points: Sequence[Point]) -> None:
        path: list[str] = []
        for index, point in enumerate(points):
            x, y = self.x(point.at), self.y(point.value)
            path.append(f"M{x:.1f},{y:.1f}" if index == 0 else f"H{x:.1f}V{y:.1f}")
        if points:
            path.append(f"H{WIDTH - _RIGHT:.1f}")
            self._svg.add("path", class_="line", d="".join(path))

    def draw_line(self, points: Sequence[Point]) -> None:
        if len(points) > 1:
            d = "L".join(f"{self.x(point.at):.1f},{self.y(point.value):.1f}" for point in points)
            ground = f"{self.y(0.0):.1f}"
            edges = f"L{self.x(points[-1].at):.1f},{ground}L{self.x(points[0].at):.1f},{ground}Z"
            self._svg.add("path", class_="area", d=f"M{d}{edges}")
            self._svg.add("path", class_="line", d=f"M{d}")
        self.draw_dots(points)

    def draw_dots(self, points: Sequence[Point]) -> None:
        for point in points:
            self._svg.add_titled(
                "circle",
                point.title or format_value(point.value),
                class_=f"dot {point.state}",
                cx=self.x(point.at),
                cy=self.y(point.value),
                r=2.5,
            )

    def draw_thresholds(self, thresholds: Iterable[Threshold]) -> None:
        for threshold in thresholds:
            y = self.y(threshold.value)
            self._svg.add("line", class_="threshold", x1=self.left, x2=WIDTH - _RIGHT, y1=y, y2=y)
            label = f"{format_value(threshold.value)} {threshold.label}"
            self._svg.add("text", label, class_="tick", x=WIDTH - _RIGHT, y=y - 3, text_anchor="end")


class Formatter(Protocol):
    """Turns a value of an axis into its text."""

    def __call__(self, value: float) -> str: ...


def build_time_ticks(span: ChartSpan, zone: tzinfo, count: int = 8) -> list[tuple[datetime, str]]:
    """Return at most `count` round instants of the range with their texts, in the zone of the reader."""
    length = span.end - span.start
    step = next((each for each in _TICK_STEPS if length / each <= count), _TICK_STEPS[-1])
    local = span.start.astimezone(zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    # In UTC, because local arithmetic is off by an hour twice a year.
    first = midnight.astimezone(UTC) + math.ceil((span.start - midnight.astimezone(UTC)) / step) * step
    ticks = [first + number * step for number in range(count + 1)]
    return [(tick, _format_tick(tick.astimezone(zone), step)) for tick in ticks if span.start <= tick <= span.end]


def build_elapsed_ticks(span: ChartSpan, count: int = 8) -> list[tuple[datetime, str]]:
    """Return at most `count` + 1 round distances from the start of the range, with their texts: 0s, 5s, 10s."""
    step = next((each for each in _TICK_STEPS if (span.end - span.start) / each <= count), _TICK_STEPS[-1])
    ticks = [step * number for number in range(count + 1)]
    return [
        (span.start + each, format_elapsed(each) if each else "0s") for each in ticks if span.start + each <= span.end
    ]


def _format_tick(local: datetime, step: timedelta) -> str:
    if step >= timedelta(days=1):
        return f"{local:%d %b}"
    if step < timedelta(seconds=1):
        return f"{local:%H:%M:%S}.{local.microsecond // 10_000:02}"
    return f"{local:%H:%M:%S}" if step < timedelta(minutes=1) else f"{local:%H:%M}"


def choose_round_values(low: float, high: float, count: int = 4) -> list[float]:
    """Return at most `count` + 1 round values between two, such as 0, 50, 100."""
    if not math.isfinite(low) or not math.isfinite(high) or high <= low:
        return [low] if math.isfinite(low) else []
    raw = (high - low) / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw)
    first = math.ceil(low / step)
    return [number * step for number in range(first, first + count + 2) if number * step <= high]


def format_value(value: float) -> str:
    """Return a value of a response as people write it: 150, 0.05, 1.2M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.4g}"


def _find_logarithmic_range(values: Sequence[float]) -> tuple[float, float]:
    positive = [value for value in values if value > 0] or [60.0]
    return min(positive) / 1.5, max(positive) * 1.5


def _list_decades(low: float, high: float) -> list[float]:
    """Return round durations of an axis, at most four: 1s, 5s, 30s, 5m, 1h, 1d."""
    marks = [0.001, 0.01, 0.1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 21_600, 43_200, 86_400, 604_800]
    shown = [float(mark) for mark in marks if low <= mark <= high]
    return shown[:: math.ceil(len(shown) / 4)] if shown else [math.sqrt(low * high)]
