"""An ended run, as the rules of its schedule read it."""

from dataclasses import dataclass
from datetime import datetime

from herdbeat.domain.run_status import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """`skip_reason` is set for a run that declined before it began. `response` is None if none was stored."""

    id: int
    status: RunStatus
    code: int | None
    attempt: int
    started_at: datetime
    finished_at: datetime | None
    response: object = None
    skip_reason: str = ""
    cost_usd: float | None = None
    work_items_left: int | None = None
    """How many other items its work source offered when it took its own."""
