"""What holds a schedule back, in words: who has paused it or switched it off, for how long, why, and the way back."""

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from herdbeat.durations import humanize

if TYPE_CHECKING:
    from herdbeat.domain.records import ScheduleRecord


class Pausable(Protocol):
    @property
    def paused(self) -> bool: ...

    @property
    def paused_until(self) -> datetime | None: ...


def is_paused(record: Pausable, now: datetime) -> bool:
    return record.paused and (record.paused_until is None or record.paused_until > now)


def describe_pause(record: "ScheduleRecord", now: datetime) -> str:
    end = "" if record.paused_until is None else f" for another {humanize(record.paused_until - now)}"
    by = f" by {record.paused_by}" if record.paused_by else ""
    reason = f' "{record.paused_reason}"' if record.paused_reason else ""
    return f"paused{end}{by}{reason}; go on with: herdbeat resume {record.label}"


def describe_skips(record: "ScheduleRecord") -> str:
    """What somebody asked to let pass."""
    beats = "the next beat is" if record.skips == 1 else f"the next {record.skips} beats are"
    reason = f' "{record.skips_reason}"' if record.skips_reason else ""
    return f"{beats} let pass, asked by {record.skips_by}{reason}; take it back: herdbeat skip --clear {record.label}"


def describe_disabled(record: "ScheduleRecord") -> str:
    """Either of the two may say no, and each has its own way back."""
    by_hand = f"it is disabled by {record.disabled_by} (herdbeat enable {record.label})" if record.disabled_by else ""
    place = f" in {record.origin}" if record.origin else " in its file"
    by_file = "" if record.enabled else f"enabled: false{place}"
    return " and ".join(part for part in (by_hand, by_file) if part)
