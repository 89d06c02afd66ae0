"""A second implementation must agree: 10,000 random expressions of the dialect that both parse, in UTC."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

import pytest
from croniter import CroniterBadDateError, croniter

from herdbeat.errors import CronNeverFires
from herdbeat.timestamps import parse_zone
from herdbeat.triggers import Cron

BATCH_COUNT = 10
BATCH_SIZE = 1_000
INSTANT_COUNT = 4
ZONE = parse_zone("UTC")
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def item(random: Random, low: int, high: int, names: list[str] | None = None) -> str:
    # Never 5-5: croniter reads a range of one value as the whole field.
    first, last = sorted(random.sample(range(low, high + 1), 2))
    match random.randrange(6 if names else 5):
        case 0 | 1:
            return str(first)
        case 2:
            return f"{first}-{last}"
        case 3:
            return f"{first}-{last}/{random.randint(1, 9)}"
        case 5 if names:
            return random.choice(names).lower()
        case _:
            return f"*/{random.randint(1, high)}"


def field(random: Random, low: int, high: int, names: list[str] | None = None, *, star: float = 0.4) -> str:
    if random.random() < star:
        return "*"
    return ",".join(item(random, low, high, names) for _ in range(random.choice((1, 1, 1, 2, 3))))


def expression(random: Random) -> str:
    day, weekday = field(random, 1, 31), field(random, 0, 6, WEEKDAYS, star=0.5)
    # A day field that only begins with a star means "both" to Vixie's cron and "either" to croniter.
    if "*" in day + weekday:
        day, weekday = random.choice(((day, "*"), ("*", weekday)))
    return " ".join((field(random, 0, 59), field(random, 0, 23), day, field(random, 1, 12, MONTHS, star=0.7), weekday))


def ours(written: str, start: datetime) -> list[datetime] | None:
    try:
        return list(islice(Cron.parse(written, ZONE).upcoming(start), INSTANT_COUNT))
    except CronNeverFires:
        return None


def theirs(written: str, start: datetime) -> list[datetime] | None:
    try:
        iterator = croniter(written, start)
        return [iterator.get_next(datetime) for _ in range(INSTANT_COUNT)]
    except CroniterBadDateError:
        return None


@pytest.mark.parametrize("share", range(BATCH_COUNT))
def test_cron_and_croniter_find_the_same_instants(share: int) -> None:
    random = Random(share)
    questions = [
        (expression(random), datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(10**8)))
        for _ in range(BATCH_SIZE)
    ]

    differing = [each for each in questions if ours(*each) != theirs(*each)]

    assert differing == []
