"""The notes about instants that a clock change affects."""

from itertools import islice, pairwise

import pytest

from herdbeat.timestamps import parse_timestamp, parse_zone
from herdbeat.triggers import Cron
from herdbeat.triggers.cron import DstNoteKind


def note_texts(expression: str, zone: str, after: str, count: int) -> list[str]:
    cron = Cron.parse(expression, parse_zone(zone))
    instants = list(islice(cron.upcoming(parse_timestamp(after)), count))
    noted = [cron.notes(now, previous) for previous, now in pairwise([None, *instants]) if now is not None]
    return [notes[0].text if notes else "" for notes in noted]


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-27T12:00:00Z",
            ["", "02:30 does not exist that night; runs at 03:00", ""],
        ),
        ("0 9 * * 1-5", "Europe/Berlin", "2026-03-26T12:00:00Z", ["", "clocks went forward on 29 Mar", ""]),
        ("0 9 * * 1-5", "Europe/Berlin", "2026-10-23T00:00:00Z", ["", "clocks went back on 25 Oct", ""]),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-23T12:00:00Z",
            ["", "02:30 happens twice that night; runs the first time", "clocks went back on 25 Oct", ""],
        ),
        (
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:00:00Z",
            ["", *["02:30 happens twice that night; runs both times"] * 2, ""],
        ),
        ("0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", ["", "clocks went forward on 29 Mar", ""]),
        # 03:00 matches anyway, and 02:30 was moved to it
        (
            "0,30 2,3 * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            ["02:00 does not exist that night; runs at 03:00", ""],
        ),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", [""]),
        ("15 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", ["02:30 does not exist that night; runs at 03:00"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", ["00:00 does not exist that night; runs at 01:00", ""]),
        ("0 12 * * *", "America/Havana", "2026-10-31T12:00:00Z", ["", "clocks went back on 1 Nov"]),
        ("0 12 1 1 *", "Europe/Berlin", "2026-02-01T00:00:00Z", ["", ""]),  # two changes: the same offset again
        ("0 9 * * *", "UTC", "2026-03-28T12:00:00Z", ["", "", ""]),
    ],
)
def test_each_instant_has_its_note(expression: str, zone: str, after: str, expected: list[str]) -> None:
    assert note_texts(expression, zone, after, len(expected)) == expected


def test_a_note_has_its_kind_and_moments_as_data() -> None:
    cron = Cron.parse("30 2 * * *", parse_zone("Europe/Berlin"))

    (note,) = cron.notes(parse_timestamp("2026-03-29T01:00:00Z"))

    assert note.kind is DstNoteKind.MOVED
    assert note.change_at == parse_timestamp("2026-03-29T01:00:00Z")
    assert f"{note.nominal:%Y-%m-%d %H:%M}" == "2026-03-29 02:30"
