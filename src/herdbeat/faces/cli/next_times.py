"""`herdbeat next`: what to look at, from when to when, and in which form."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from herdbeat.domain.trigger import Trigger
from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.times import read_time, wanted_zone
from herdbeat.faces.cli.world import World
from herdbeat.service.instants import Idle, Upcoming, of_trigger, read_cron, read_expression

if TYPE_CHECKING:
    from herdbeat.service.outlook import Outlook

USUAL_COUNT = 5
MOST = 100_000
"""Past that many instants nobody reads on, and a fleet of seconds would count for minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The part of time that is asked for."""

    now: datetime
    start: datetime
    until: datetime | None
    count: int | None

    @property
    def is_from_now(self) -> bool:
        return self.start == self.now

    def cut(self, instants: Iterator[Upcoming], usual: int = MOST) -> list[Upcoming]:
        """Those inside. Without a count or an end, the usual number of them."""
        most = self.count or (usual if self.until is None else MOST)
        return list(islice(self.before_end(instants), most))

    def before_end(self, instants: Iterator[Upcoming]) -> Iterator[Upcoming]:
        until = self.until
        return instants if until is None else takewhile(lambda each: each.next_run_at <= until, instants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is asked about: a bare expression, or schedules of a fleet."""

    zone: ZoneInfo
    trigger: Trigger | None = None
    schedules: "tuple[Outlook, ...]" = ()

    @property
    def is_single(self) -> bool:
        return self.trigger is not None or len(self.schedules) == 1

    def upcoming(self, start: datetime) -> Iterator[Upcoming]:
        """Every instant, by time."""
        if self.trigger is not None:
            return of_trigger(self.trigger, start)
        from herdbeat.service.preview import of_fleet  # noqa: PLC0415 -- an expression needs no governor

        return of_fleet(self.schedules, start)

    def instants(self, window: Window) -> list[Upcoming]:
        """Those to show: of many schedules each one's first, unless a number or an end was given."""
        found = self._instants(window)
        wishes = {each.label: each.skips for each in self.schedules if each.skips}
        if not wishes or not window.is_from_now:
            return found
        from herdbeat.service.preview import with_wishes  # noqa: PLC0415

        return list(with_wishes(found, wishes))

    def _instants(self, window: Window) -> list[Upcoming]:
        if self.is_single:
            return window.cut(self.upcoming(window.start), USUAL_COUNT)
        if window.count is not None or window.until is not None:
            return window.cut(self.upcoming(window.start))
        from herdbeat.service.preview import firsts  # noqa: PLC0415

        return firsts(self.schedules, window.start)

    def idle(self, window: Window) -> list[Idle]:
        """The schedules without a time."""
        if not self.schedules:
            return []
        from herdbeat.service.preview import idle  # noqa: PLC0415

        return idle(self.schedules, window.start)


def run(given: Given, world: World) -> int:
    zone = wanted_zone(given)
    subject = _subject(given, world, zone)
    window = _window(given, world, subject.zone)
    _show(given, world, subject, window)
    return 0


def _show(given: Given, world: World, subject: Subject, window: Window) -> None:
    if given.value(flags.BY):
        from herdbeat.faces.cli.by_hour import show_hours  # noqa: PLC0415 -- each form is loaded when asked for

        show_hours(given, world.terminal, subject, window)
    elif given.has(flags.JSON):
        from herdbeat.faces.cli.next_json import show_json  # noqa: PLC0415

        show_json(world.terminal, subject, window)
    else:
        from herdbeat.faces.cli.next_lists import show_lists  # noqa: PLC0415

        show_lists(given, world.terminal, subject, window)


def _subject(given: Given, world: World, zone: ZoneInfo | None) -> Subject:
    cron, what = given.value(flags.CRON), given.word(0)
    if cron is not None and what is not None:
        raise UsageError("--cron and WHAT exclude each other.", hint="Give the expression once.")
    if cron is not None or what is not None:
        from herdbeat.app import system_zone  # noqa: PLC0415 -- asks the file system, so only if needed

        here = zone or system_zone(world.environ)
        trigger = read_expression(what, here) if what is not None else read_cron(cron or "", here)
        if trigger is not None:
            return Subject(zone=here, trigger=trigger)
    return _fleet_subject(given, world, zone)


def _fleet_subject(given: Given, world: World, zone: ZoneInfo | None) -> Subject:
    """A fleet is read only if one is meant: an expression must not pay for YAML, nor for the ledger."""
    from herdbeat.faces.cli.ledger import open_ledger  # noqa: PLC0415
    from herdbeat.faces.cli.outlooks import find_outlooks  # noqa: PLC0415

    with open_ledger(given, world) as ledger:
        schedules = find_outlooks(ledger, world, given.word(0))
        own = schedules[0].zone if len(schedules) == 1 else ledger.zone
    return Subject(zone=zone or own, schedules=tuple(schedules))


def _window(given: Given, world: World, zone: ZoneInfo) -> Window:
    now = world.clock.now()
    start_text, until_text = given.value(flags.FROM), given.value(flags.UNTIL)
    start = now if start_text is None else read_time(start_text, now, zone)
    until = None if until_text is None else read_time(until_text, start, zone)
    if until is not None and until <= start:
        raise UsageError("--until lies before the start.", hint="Give a later time, or a duration such as 24h.")
    return Window(now=now, start=start, until=until, count=_count(given.value(flags.COUNT)))


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    # isdecimal() alone lets ٣ through, which is a number to Python and a puzzle to everybody else.
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 7 and 0 < int(text) <= MOST):
        raise UsageError(f'--count cannot be "{text[:20]}".', hint=f"Write a whole number from 1 to {MOST}.")
    return int(text)
