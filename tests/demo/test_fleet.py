"""The demo's fleet file: valid without a warning, and in a folder that the next start finds."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from herdbeat.demo.fleet import demo_folder, write_fleet
from herdbeat.testing import FakeClock
from herdbeat.testing.command_line import CommandLine

CLOCK = FakeClock(datetime(2026, 3, 2, 8, 0, tzinfo=UTC))


def test_the_fleet_has_not_even_a_warning_and_no_hole_left(tmp_path: Path) -> None:
    path = write_fleet(tmp_path / "deep" / "demo", 1234)

    answer = CommandLine(folder=path.parent, clock=CLOCK).run("validate", "--strict")

    assert (answer.status, answer.err) == (0, "")
    text = path.read_text(encoding="utf-8")
    assert ":1234/queue" in text
    assert "PORT" not in text


def test_a_fleet_that_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    path = write_fleet(tmp_path, 1234)
    first = path.stat().st_mtime_ns

    write_fleet(tmp_path, 1234)

    assert path.stat().st_mtime_ns == first


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/home/you"}, "/cache/herdbeat/demo"),
        ({"HOME": "/home/you"}, "/home/you/.cache/herdbeat/demo"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/you"}, "/home/you/.cache/herdbeat/demo"),
    ],
)
def test_it_lives_in_the_cache_of_the_user(environ: dict[str, str], folder: str) -> None:
    assert demo_folder(environ) == Path(folder)
