"""`herdbeat next --by hour`: where the instants crowd, and what would spread them."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from herdbeat.errors import UsageError
from herdbeat.faces.cli import options as flags
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.next_times import Subject, Window
from herdbeat.faces.cli.terminal import Terminal
from herdbeat.moments import format_moment
from herdbeat.service.instants import Upcoming

HERD = 10
"""So many schedules at one instant are worth a word."""

MANY = 1_000_000
"""Where counting stops: about half a minute of it."""

LONGEST = timedelta(days=31)

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class Hour:
    """The instants of one hour, and how many schedules meet at each."""

    starts_at: datetime
    meetings: Counter[datetime] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.meetings.total()

    @property
    def fullest(self) -> int:
        return max(self.meetings.values(), default=0)


def show_hours(given: Given, terminal: Terminal, subject: Subject, window: Window) -> None:
    until = window.until or window.start + timedelta(hours=24)
    if until - window.start > LONGEST:
        raise UsageError("--by hour shows at most 31 days.", hint="Give a nearer --until, such as 7d.")
    window = replace(window, until=until)
    found = islice(window.before_end(subject.upcoming(window.start)), MANY)
    hours = count_hours(found, subject.zone, window.start, until)
    if given.has(flags.JSON):
        terminal.say(json.dumps(_json(hours, subject.zone, window.start, until), indent=2, ensure_ascii=False))
    elif given.has(flags.PLAIN):
        for hour in hours:
            terminal.say(f"{hour.starts_at.astimezone(subject.zone).isoformat()}\t{hour.count}")
    else:
        _show(terminal, hours, subject.zone, has_days=until - window.start > timedelta(hours=24))
    if sum(hour.count for hour in hours) == MANY:
        terminal.remark(f"Stopped counting at {MANY} instants; take a shorter time with --until.")


def count_hours(instants: Iterable[Upcoming], zone: ZoneInfo, start: datetime, until: datetime) -> list[Hour]:
    """Every hour from start to end, also the empty ones: a gap is something to see."""
    hours: dict[datetime, Hour] = {}
    starts_at = _hour(start, zone)
    while starts_at < until:
        hours[starts_at] = Hour(starts_at)
        starts_at += timedelta(hours=1)
    for each in instants:
        starts_at = _hour(each.next_run_at, zone)
        hours.setdefault(starts_at, Hour(starts_at)).meetings[each.next_run_at] += 1
    return [hours[key] for key in sorted(hours)]


def _hour(moment: datetime, zone: ZoneInfo) -> datetime:
    """The start of its hour on the wall clock of the zone: in India that is half past in UTC."""
    return moment.astimezone(zone).replace(minute=0, second=0, microsecond=0).astimezone(UTC)


def _show(terminal: Terminal, hours: list[Hour], zone: ZoneInfo, *, has_days: bool) -> None:
    most = max(hour.count for hour in hours)
    herd = max(hours, key=lambda hour: hour.fullest)
    for hour in hours:
        local = hour.starts_at.astimezone(zone).strftime("%a %d %b  %H" if has_days else "%H")
        bar = terminal.style(_BARS[-(-hour.count * 8 // most)], "cyan") if most else " "
        remark = terminal.style(_warning(hour, zone), "yellow") if hour is herd else ""
        terminal.say(f"{local} {bar} {hour.count:>{len(str(most))}}{remark}")


def _warning(hour: Hour, zone: ZoneInfo) -> str:
    """Said once, of the fullest instant of all: it is the first to mend."""
    if hour.fullest < HERD:
        return ""
    at = min(moment for moment, count in hour.meetings.items() if count == hour.fullest)
    return f"   {hour.fullest} schedules share {at.astimezone(zone):%H:%M:%S}; `jitter: 10%` would spread them"


def _json(hours: list[Hour], zone: ZoneInfo, start: datetime, until: datetime) -> dict[str, object]:
    return {
        "from": format_moment(start),
        "until": format_moment(until),
        "timezone": zone.key,
        "hours": [
            {
                "local": hour.starts_at.astimezone(zone).isoformat(),
                "count": hour.count,
                "most_at_once": hour.fullest,
            }
            for hour in hours
        ],
    }
