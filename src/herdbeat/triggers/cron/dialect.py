"""What cronsim cannot read but people write, said in words that it can: `?`, `15W`, `FRI#L`, `SAT-SUN`."""

import re
from dataclasses import dataclass

from herdbeat.triggers.cron.vocabulary import WEEKDAY

_NEAREST = re.compile(r"([0-9]{1,2})W")
_NTH = re.compile(r"(?P<first>[0-9A-Z]+)(-(?P<last>[0-9A-Z]+))?#(?P<nth>[0-9L]+)")
_LAST = re.compile(r"(?P<first>[0-9A-Z]+?)(-(?P<last>[0-9A-Z]+?))?L")
_TO_SUNDAY = re.compile(r"(?P<first>0*[1-7]|(?!SUN)[A-Z]{3})-SUN(?P<step>/.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Fields for cronsim; the days of month written as `15W`; and whether both day fields must match."""

    fields: list[str]
    nearest: frozenset[int]
    both: bool


def translate(fields: list[str]) -> Translated:
    """Never raises: what makes no sense is left as it is, and cronsim refuses it."""
    both = fields[-1].startswith("+")
    *front, day, month, weekday = map(_without_empty_items, [*fields[:-1], fields[-1].removeprefix("+")])
    items = ["*"] if day == "?" else day.split(",")
    nearest = [item for item in items if _is_nearest(item)]
    return Translated(
        fields=[*front, ",".join(item for item in items if item not in nearest), month, _weekdays(weekday)],
        nearest=frozenset(int(item[:-1]) for item in nearest),
        both=both,
    )


def _without_empty_items(field: str) -> str:
    """agentd's dialect reads "1,,2" as "1,2"."""
    return ",".join(item for item in field.split(",") if item) or field


def _is_nearest(item: str) -> bool:
    match = _NEAREST.fullmatch(item)
    return match is not None and 1 <= int(match[1]) <= 31


def _weekdays(field: str) -> str:
    if field == "?":
        return "*"
    return ",".join(_weekday(item) for item in field.split(","))


def _weekday(item: str) -> str:
    if match := _TO_SUNDAY.fullmatch(item):
        return f"{match['first']}-7{match['step'] or ''}"  # the week ends on 7, also by name
    if match := _LAST.fullmatch(item):
        return _nth(match["first"], match["last"] or match["first"], "L", item)
    if match := _NTH.fullmatch(item):
        return _nth(match["first"], match["last"] or match["first"], match["nth"], item)
    return item


def _nth(first: str, last: str, nth: str, item: str) -> str:
    """`MON-WED#2` -> `1#2,2#2,3#2`; `FRI#L` -> `5L`."""
    low, high = WEEKDAY.value(first), WEEKDAY.value("7" if last == "SUN" and first != "SUN" else last)
    if low is None or high is None or low > high:
        return item
    ending = "L" if nth == "L" else f"#{nth}"
    return ",".join(f"{day}{ending}" for day in range(low, high + 1))
