"""What cronsim cannot read but people write, said in words that it can: `?`, `15W`, `FRI#L`, `SAT-SUN`."""

import re
from dataclasses import dataclass

from herdbeat.triggers.cron.vocabulary import DAY_OF_WEEK

_NEAREST_PATTERN = re.compile(r"([0-9]{1,2})W")
_NTH_PATTERN = re.compile(r"(?P<first>[0-9A-Z]+)(-(?P<last>[0-9A-Z]+))?#(?P<nth>[0-9L]+)")
_LAST_PATTERN = re.compile(r"(?P<first>[0-9A-Z]+?)(-(?P<last>[0-9A-Z]+?))?L")
_TO_SUNDAY_PATTERN = re.compile(r"(?P<first>0*[1-7]|(?!SUN)[A-Z]{3})-SUN(?P<step>/.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronsimFields:
    """Fields for cronsim; the days of month written as `15W`; and whether both day fields must match."""

    fields: list[str]
    nearest_days: frozenset[int]
    require_both: bool


def translate_fields(fields: list[str]) -> CronsimFields:
    """Never raises: what makes no sense is left as it is, and cronsim refuses it."""
    require_both = fields[-1].startswith("+")
    *front, day, month, weekday = map(_drop_empty_items, [*fields[:-1], fields[-1].removeprefix("+")])
    items = ["*"] if day == "?" else day.split(",")
    nearest_days = [item for item in items if _is_nearest_weekday(item)]
    return CronsimFields(
        fields=[
            *front,
            ",".join(item for item in items if item not in nearest_days),
            month,
            _translate_weekdays(weekday),
        ],
        nearest_days=frozenset(int(item[:-1]) for item in nearest_days),
        require_both=require_both,
    )


def _drop_empty_items(field: str) -> str:
    """agentd's dialect reads "1,,2" as "1,2"."""
    return ",".join(item for item in field.split(",") if item) or field


def _is_nearest_weekday(item: str) -> bool:
    match = _NEAREST_PATTERN.fullmatch(item)
    return match is not None and 1 <= int(match[1]) <= 31


def _translate_weekdays(field: str) -> str:
    if field == "?":
        return "*"
    return ",".join(_translate_weekday(item) for item in field.split(","))


def _translate_weekday(item: str) -> str:
    if match := _TO_SUNDAY_PATTERN.fullmatch(item):
        return f"{match['first']}-7{match['step'] or ''}"  # the week ends on 7, also by name
    if match := _LAST_PATTERN.fullmatch(item):
        return _expand_nth(match["first"], match["last"] or match["first"], "L", item)
    if match := _NTH_PATTERN.fullmatch(item):
        return _expand_nth(match["first"], match["last"] or match["first"], match["nth"], item)
    return item


def _expand_nth(first: str, last: str, nth: str, item: str) -> str:
    """`MON-WED#2` -> `1#2,2#2,3#2`; `FRI#L` -> `5L`."""
    low, high = DAY_OF_WEEK.value(first), DAY_OF_WEEK.value("7" if last == "SUN" and first != "SUN" else last)
    if low is None or high is None or low > high:
        return item
    suffix = "L" if nth == "L" else f"#{nth}"
    return ",".join(f"{day}{suffix}" for day in range(low, high + 1))
