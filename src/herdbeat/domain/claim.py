"""A node's hold on a beat: what is needed to run it, and to write down how it ended."""

from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.decision import Source
from herdbeat.domain.plan import ScheduleSpec


class Claim(NamedTuple):
    run_id: int
    beat_id: int
    schedule_id: int
    target_id: int
    label: str
    dedup_id: str
    due_at: datetime
    source: Source
    attempt: int
    revision: int
    plan: ScheduleSpec
    fence: int = 0
