"""Rows of cells: what is drawn where, and what wins where two things meet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.domain.beat import BeatOutcome, Gap, MissedReason
from herdbeat.domain.records import TimelineSpan
from herdbeat.domain.run import RunStatus
from herdbeat.service.queries.schedule_search import parse_search
from herdbeat.service.queries.timeline import (
    MAX_RUNS_OF_ROW,
    Cell,
    Scale,
    choose_tick_step,
    draw_row,
    iter_thinned_spans,
    load_worst_timeline,
)
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, open_herd

START = datetime(2026, 3, 26, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SCALE = Scale(since=START, until=START + 10 * MINUTE, cells=10)

GLYPHS = {
    Cell.EMPTY: " ",
    Cell.DOWN: "░",
    Cell.SKIPPED: "▭",
    Cell.MISSED: "·",
    Cell.WAITING: "◷",
    Cell.RAN: "▬",
    Cell.CUT_OFF: "▪",
    Cell.RUNNING: "═",
    Cell.OVERLAP: "≡",
    Cell.FAILED: "✗",
    Cell.NOW: "●",
}


def span(minute: float, **changes: Any) -> TimelineSpan:
    """A beat that was due so many minutes after the start."""
    due = START + minute * MINUTE
    fields: dict[str, Any] = {
        "schedule": 1,
        "outcome": BeatOutcome.RAN,
        "due_at": due,
        "last_due_at": due,
        "number": 1,
        "status": None,
        "started_at": None,
        "finished_at": None,
    }
    return TimelineSpan(**{**fields, **changes})


def ran(minute: float, takes: float, status: RunStatus = RunStatus.SUCCEEDED) -> TimelineSpan:
    start = START + minute * MINUTE
    end = None if status is RunStatus.RUNNING else start + takes * MINUTE
    return span(minute, status=status, started_at=start, finished_at=end)


def drawn(*spans: TimelineSpan, gaps: tuple[Gap, ...] = ()) -> str:
    return "".join(GLYPHS[cell] for cell in draw_row(spans, SCALE, gaps))


@pytest.mark.parametrize(
    ("spans", "row"),
    [
        ([], "          "),
        ([ran(2, 0)], "  ▬       "),
        ([ran(2, 3.5)], "  ▬▬▬▬    "),
        ([ran(-5, 6)], "▬▬        "),
        ([ran(-5, 2)], "          "),
        ([ran(2, 2, RunStatus.FAILED)], "  ▬▬✗     "),
        ([ran(2, 2, RunStatus.TIMED_OUT)], "  ▬▬✗     "),
        ([ran(2, 2, RunStatus.INTERRUPTED)], "  ▬▬▪     "),
        ([ran(6, 0, RunStatus.RUNNING)], "      ═══●"),
        ([ran(0, 4), ran(2, 4)], "▬▬≡≡≡▬▬   "),
        ([span(3, outcome=BeatOutcome.SKIPPED)], "   ▭      "),
        ([span(3, outcome=BeatOutcome.MERGED)], "   ▭      "),
        ([span(3, outcome=BeatOutcome.MISSED, last_due_at=START + 6 * MINUTE, number=4)], "   ····   "),
        ([span(7, outcome=BeatOutcome.PENDING)], "       ◷◷◷"),
        ([span(2, outcome=BeatOutcome.SKIPPED), ran(2.5, 0, RunStatus.FAILED)], "  ✗       "),
    ],
)
def test_a_timeline_row_shows_the_outcome_of_each_cell(spans: list[TimelineSpan], row: str) -> None:
    assert drawn(*spans) == row


def test_time_without_a_node_is_shaded_behind_missed_beats() -> None:
    night = Gap(from_at=START - MINUTE, until=START + 4.5 * MINUTE, reason=MissedReason.SCHEDULER_DOWN)

    row = drawn(span(2, outcome=BeatOutcome.MISSED), ran(4.7, 0), gaps=(night,))

    assert row == "░░·░▬     "


_RUNS = st.tuples(st.floats(-100, 100), st.floats(0, 100), st.sampled_from(list(RunStatus)))


@given(st.lists(_RUNS), st.integers(1, 300))
def test_a_row_is_as_long_as_its_scale_and_failures_in_it_are_never_painted_over(
    runs: list[tuple[float, float, RunStatus]], cells: int
) -> None:
    spans = [ran(*each) for each in runs]
    scale = Scale(since=START, until=START + 10 * MINUTE, cells=cells)

    row = draw_row(spans, scale)

    failed = {
        scale.find_cell(each.finished_at)
        for each in spans
        if each.status is RunStatus.FAILED and each.finished_at and scale.covers(each.finished_at, each.finished_at)
    }
    assert len(row) == cells
    assert all(row[index] in (Cell.FAILED, Cell.NOW) for index in failed)


@pytest.mark.parametrize(
    ("hours", "most", "minutes"), [(2, 6, 30), (2, 13, 10), (17, 8, 180), (24 * 30, 5, 10_080), (0.1, 6, 1)]
)
def test_marks_on_the_axis_are_round_and_not_too_many(hours: float, most: int, minutes: int) -> None:
    assert choose_tick_step(timedelta(hours=hours), most) == timedelta(minutes=minutes)


async def test_the_worst_schedule_is_first_however_many_there_are(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        for number in range(30):
            herd.schedule(f"fine-{number:02}", every="10m")
        herd.schedule("broken", every="10m", runner=ScriptedRunner(fails=99))
        await herd.advance(timedelta(minutes=30))
        reader = SqliteReader(herd.store.path)

        found, other = (
            load_worst_timeline(reader, parse_search(text), since=MONDAY, now=herd.now, max_rows=3, has_live_node=True)
            for text in ("", "fine -fine-0")
        )
        reader.close()

        assert (found.schedules[0].label, len(found.schedules), found.total) == ("broken", 3, 31)
        assert (other.schedules[0].label.startswith("fine-"), other.total) == (True, 20)
        assert {each.status for each in found.spans[found.schedules[0].id]} == {RunStatus.FAILED}


async def test_a_calendar_that_has_ended_its_run_stays_in_the_timeline(tmp_path: Path) -> None:
    """Only the start of an interval was noted: a calendar was there while it ran, and gone between its runs."""
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("report", cron="*/10 * * * *")
        await herd.advance(timedelta(minutes=25))
        reader = SqliteReader(herd.store.path)

        found = load_worst_timeline(
            reader, parse_search(""), since=MONDAY, now=herd.now, max_rows=3, has_live_node=True
        )
        reader.close()

        (record,) = found.schedules
        assert (record.label, record.last_started_at) == ("report", MONDAY + timedelta(minutes=20))


async def test_a_schedule_that_runs_often_is_not_busy_before_its_first_run(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("often", every="10s")
        await herd.advance(timedelta(seconds=10 * (MAX_RUNS_OF_ROW + 20)))
        reader = SqliteReader(herd.store.path)
        since = MONDAY - timedelta(hours=1)

        found = load_worst_timeline(reader, parse_search(""), since=since, now=herd.now, max_rows=3, has_live_node=True)
        reader.close()

        (record,) = found.schedules
        began, until = found.busy[record.id]
        assert began == MONDAY
        assert began < until < herd.now
        assert all(each.run for each in found.spans[record.id])


def test_short_runs_that_share_a_place_are_drawn_once_and_a_failure_beside_them_stays() -> None:
    spans = [ran(1.0, 0.001), ran(1.01, 0.001), ran(1.02, 0.001, RunStatus.FAILED), ran(1.03, 5), ran(3, 0.001)]

    drawn = list(iter_thinned_spans(spans, START, START + 10 * MINUTE, 10))

    assert drawn == [spans[0], spans[2], spans[3], spans[4]]
