"""Files that change while the fleet runs: when they are read, what they do, and what a mistake in them does."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from herdbeat.config.loader import LoadResult, try_load_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.errors import StoreUnavailable
from herdbeat.events import ConfigApplied, ConfigRejected, Event
from herdbeat.service.commands.base import AppliedFleet
from herdbeat.service.config_watch import READER_SWITCH_INTERVAL_S, ConfigWatcher, load_in_thread, restart_required
from herdbeat.testing import FakeClock

NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
FLEET = "version: 1\ncommands: [{ name: a, command: [ls], every: 5m }]\n"


class Desk:
    """A folder with a fleet, and a reloader that is driven by hand. Applying is written down, and may fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.applied: list[Fleet] = []
        self.told: list[Event] = []
        self.failures = 0
        self.write(FLEET)
        reading = self.read()
        assert reading.fleet is not None
        self.reloader = ConfigWatcher(reading.fleet, folder, self.read, self.apply, self.told.append, FakeClock(NOW))
        self.reloader.start_watching(reading)

    def write(self, text: str, name: str = "herdbeat.yaml") -> None:
        (self.folder / name).write_text(text)

    def read(self) -> LoadResult:
        path = self.folder / "herdbeat.yaml"
        return try_load_fleet(path, environ={}, system_zone=ZoneInfo("UTC"), base=self.folder)

    async def apply(self, fleet: Fleet) -> AppliedFleet:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the disk is full")
        self.applied.append(fleet)
        return AppliedFleet(changed=("a",))

    async def poll(self, times: int = 2) -> None:
        for _ in range(times):
            await self.reloader.poll()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_as_long_as_nothing_changes_nothing_is_read(desk: Desk) -> None:
    await desk.poll(5)

    assert (desk.applied, desk.told) == ([], [])


async def test_a_change_is_applied_once_it_is_the_same_in_two_looks(desk: Desk) -> None:
    desk.write(FLEET.replace("5m", "10m"))

    await desk.poll(1)
    at_first = len(desk.applied)
    await desk.poll(3)

    assert (at_first, len(desk.applied)) == (0, 1)
    assert desk.told == [ConfigApplied(NOW, changed=("a",))]


async def test_a_mistake_changes_nothing_is_published_once_and_can_be_corrected(desk: Desk) -> None:
    desk.write(FLEET.replace("5m", "5x"))
    await desk.poll(4)
    refused = list(desk.told)

    desk.write(FLEET.replace("5m", "15m"))
    await desk.poll()

    assert len(refused) == 1
    assert isinstance(refused[0], ConfigRejected)
    assert refused[0].where.startswith("herdbeat.yaml:2:")
    assert len(desk.applied) == 1


async def test_a_file_that_is_gone_is_a_mistake_like_any_other(desk: Desk) -> None:
    (desk.folder / "herdbeat.yaml").unlink()

    await desk.poll()

    assert [type(event) for event in desk.told] == [ConfigRejected]
    assert desk.applied == []


async def test_a_second_file_that_the_first_begins_to_name_is_watched_too(desk: Desk) -> None:
    desk.write("name: b\nschedules: { x: { type: interval, interval: 1h } }\n", "b.yaml")
    desk.write(FLEET + "agents: [{ path: ./b.yaml }]\n")
    await desk.poll()

    desk.write("name: b\nschedules: { x: { type: interval, interval: 30m } }\n", "b.yaml")
    await desk.poll()

    assert len(desk.applied) == 2


async def test_files_that_could_not_be_applied_are_tried_again(desk: Desk) -> None:
    desk.failures = 1
    desk.write(FLEET.replace("5m", "10m"))

    await desk.poll(4)

    assert len(desk.applied) == 1


async def test_files_that_say_the_same_are_no_news(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(fleet: Fleet) -> AppliedFleet:
        return AppliedFleet()

    monkeypatch.setattr(desk.reloader, "_apply", nothing)
    desk.write(f"# a comment\n{FLEET}")

    await desk.poll()

    assert desk.told == []


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("max_concurrent: 3\n", ("max_concurrent",)),
        ("retention: { age: 3d }\nserver: { port: 99 }\n", ("server", "retention")),
        ("fleet: { description: x }\n", ()),
    ],
)
def test_settings_that_wait_for_the_next_start_are_named(desk: Desk, line: str, names: tuple[str, ...]) -> None:
    first = desk.read().fleet
    desk.write(FLEET + line)

    second = desk.read().fleet

    assert first is not None
    assert second is not None
    assert restart_required(first, second) == names


async def test_beats_were_late_while_ten_thousand_targets_were_read() -> None:
    usual = sys.getswitchinterval()

    while_reading = await load_in_thread(sys.getswitchinterval)
    with pytest.raises(ZeroDivisionError):
        await load_in_thread(lambda: 1 / 0)

    assert while_reading == pytest.approx(READER_SWITCH_INTERVAL_S)
    assert sys.getswitchinterval() == pytest.approx(usual)


async def test_a_reload_leaves_a_node_the_turns_of_its_threads() -> None:
    """It once set the interpreter's own interval, whatever the node had chosen."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(0.002)
    try:
        await asyncio.gather(*(load_in_thread(lambda: None) for _ in range(2)))
        after = sys.getswitchinterval()
    finally:
        sys.setswitchinterval(usual)

    assert after == pytest.approx(0.002)
