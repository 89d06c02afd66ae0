"""What may be said about a function beside when it runs: the words of the files, as keyword arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict
from zoneinfo import ZoneInfo

DurationOption = str | timedelta
TimeOption = str | datetime


class ScheduleOptions(TypedDict, total=False):
    """`name` is `target` or `target/schedule`, the function's own name by default; the rest is checked as in a file."""

    name: str
    description: str
    max_concurrent: int
    prompt: str
    enabled: bool
    timezone: str | ZoneInfo
    catchup: Literal["skip", "once", "all"]
    catchup_max: int
    grace: DurationOption
    max_late: DurationOption
    overlap: Literal["skip", "queue", "queue_all", "cancel", "allow"]
    jitter: str | timedelta
    min_interval: DurationOption
    max_interval: DurationOption
    backoff: Mapping[str, int]
    retry: Mapping[str, int | DurationOption]
    timeout: DurationOption
    late_after: DurationOption
    pause_after_failures: int
    max_runs: int
    starts_at: TimeOption
    ends_at: TimeOption
    active_hours: str
    budget: Mapping[str, float]
    precheck: Sequence[str]
    priority: int
    tags: Sequence[str]
    group: str
    runs_on: str
    dedup: str
    when: str
    max_queued: int
    first_run: Literal["now", "after_interval"]
    on_interrupt: Literal["skip", "retry"]
    adapt: Sequence[Mapping[str, Any]]
