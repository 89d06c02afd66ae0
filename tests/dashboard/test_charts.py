"""Charts: the same values give the same SVG, whose text is escaped and whose numbers lie where they belong.

Write the golden files anew with `HERDBEAT_GOLDEN=write`, and look at them before you commit.
"""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

import pytest

from herdbeat.dashboard.charts import (
    Band,
    Bar,
    ChartSpan,
    Event,
    MarkState,
    Point,
    Row,
    Threshold,
    build_elapsed_ticks,
    build_time_ticks,
    choose_round_values,
    draw_cadence,
    draw_durations,
    draw_field,
    draw_strip,
    draw_timeline,
    format_value,
)

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 3, 26, 12, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = ChartSpan(NOON, NOON + timedelta(hours=1))
POINTS = [Point(NOON + timedelta(minutes=10 * number), value) for number, value in enumerate((12, 13, 150, 149, 20))]


def minutes(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


CHARTS: dict[str, Callable[[], str]] = {
    "strip": lambda: draw_strip(list(MarkState), "every state"),
    "field": lambda: draw_field(
        POINTS, [Threshold(100, "surge"), Threshold(50, "surge until")], HOUR, BERLIN, "the depth of a queue"
    ),
    "cadence": lambda: draw_cadence(POINTS, [Band(minutes(20), minutes(40), "rule:surge")], HOUR, BERLIN, "the pace"),
    "durations": lambda: draw_durations(POINTS, (10, 20), HOUR, BERLIN, "durations"),
    "timeline": lambda: draw_timeline(
        [
            Row(
                "triage/issues", (Bar(minutes(5), minutes(15), MarkState.OK, "ok", "/runs/7f3k"),), "/schedules/a%22b/c"
            ),
            Row(
                "a <b>name</b> that is longer than its place", (Bar(minutes(50), minutes(59), MarkState.PLANNED, "p"),)
            ),
        ],
        [Event(minutes(30), 'you: pause "x"')],
        HOUR,
        minutes(45),
        BERLIN,
        "the last hour",
    ),
}


@pytest.mark.parametrize("name", sorted(CHARTS))
def test_a_chart_is_drawn_as_before(name: str) -> None:
    drawn = CHARTS[name]()

    path = GOLDEN / f"{name}.svg"
    if os.environ.get("HERDBEAT_GOLDEN") == "write":
        path.write_text(f"{drawn}\n", encoding="utf-8")
    ET.fromstring(drawn)
    assert "style=" not in drawn
    assert path.read_text(encoding="utf-8") == f"{drawn}\n"


def test_what_others_write_stays_text() -> None:
    drawn = draw_strip([MarkState.OK], '"><script>\x00')

    assert "<script" not in drawn
    ET.fromstring(drawn)


def test_runs_that_share_a_pixel_are_one_bar_and_a_failure_among_them_is_seen() -> None:
    bars = [Bar(minutes(5), minutes(5), MarkState.OK, "ok")] * 500 + [
        Bar(minutes(5), minutes(5), MarkState.FAILED, "f")
    ]

    drawn = draw_timeline([Row("busy", tuple(bars))], (), HOUR, minutes(45), BERLIN, "busy")

    assert drawn.count('class="bar ok"') == 1
    assert drawn.count('class="bar failing"') == 1


def test_what_is_planned_after_the_end_of_a_chart_is_not_drawn_at_its_edge() -> None:
    bars = (
        Bar(minutes(61), minutes(61), MarkState.PLANNED, "tomorrow"),
        Bar(minutes(5), minutes(6), MarkState.OK, "ok"),
    )

    drawn = draw_timeline([Row("late", bars)], (), HOUR, minutes(45), BERLIN, "late")

    assert "tomorrow" not in drawn
    assert drawn.count('class="bar') == 1


def test_a_chart_with_links_is_no_image_and_only_names_are_stops_of_the_tab_key() -> None:
    row = Row("triage", (Bar(minutes(5), minutes(6), MarkState.OK, "ok", "/runs/1"),), "/schedules/triage/default")

    drawn = draw_timeline([row], (), HOUR, minutes(45), BERLIN, "triage")

    assert 'role="group"' in drawn
    assert '<a href="/schedules/triage/default"><text' in drawn
    assert '<a href="/runs/1" tabindex="-1"><rect' in drawn


def test_steps_are_placed_by_the_time_since_the_run_began() -> None:
    texts = [text for _, text in build_elapsed_ticks(ChartSpan(minutes(0), minutes(0) + timedelta(seconds=20)))]

    assert texts == ["0s", "5.0s", "10s", "15s", "20s"]


def test_an_empty_chart_is_a_chart() -> None:
    for drawn in (
        draw_field([], [], HOUR, BERLIN, "nothing"),
        draw_cadence([], [], HOUR, BERLIN, "nothing"),
        draw_durations([], None, HOUR, BERLIN, "nothing"),
        draw_timeline([], (), HOUR, NOON, BERLIN, "nothing"),
        draw_strip([], "nothing"),
    ):
        ET.fromstring(drawn)


def test_ticks_are_round_in_the_zone_of_the_reader_also_when_clocks_change() -> None:
    night = ChartSpan(datetime(2026, 3, 28, 23, 0, tzinfo=UTC), datetime(2026, 3, 29, 5, 0, tzinfo=UTC))

    texts = [text for _, text in build_time_ticks(night, BERLIN)]

    assert texts == ["00:00", "01:00", "03:00", "04:00", "05:00", "06:00", "07:00"]


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [(0, 150, [0, 50, 100, 150]), (0, 0.07, [0, 0.02, 0.04, 0.06]), (5, 5, [5]), (0, float("inf"), [0])],
)
def test_values_of_an_axis_are_round(low: float, high: float, values: list[float]) -> None:
    assert choose_round_values(low, high) == pytest.approx(values)


@pytest.mark.parametrize(("value", "text"), [(150, "150"), (0.05, "0.05"), (12_345, "12.3k"), (1_200_000, "1.2M")])
def test_values_are_written_as_people_write_them(value: float, text: str) -> None:
    assert format_value(value) == text


def test_one_slow_run_does_not_press_the_others_onto_the_ground() -> None:
    points = [Point(minutes(number), 0.01 if number else 60.0) for number in range(20)]

    heights = [float(each) for each in re.findall(r'cy="([0-9.]+)"', draw_durations(points, None, HOUR, UTC, "took"))]

    assert 110 - 18 - max(heights) > 2  # above the ground
    assert min(heights) < 20
