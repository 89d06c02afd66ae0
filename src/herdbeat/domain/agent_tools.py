"""What agents say through our own tools: when to wake them, how often to run them, and how a run went."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHint:
    """A hint that an agent gave through our tools, and that is in force: a wake (`at`) or a pace (`every`).

    `request` is what was asked for, in one form: the same run that asks for the same again changes nothing. `run_id` is
    the run that asked, 0 if none did. `note` is a text that the agent gets back when it wakes up.
    """

    id: int
    every: timedelta | None
    at: datetime | None
    expires_at: datetime
    reason: str
    run_id: int
    request: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """How an agent says that its run went. `metrics` become the response that rules read.

    `ok` is None if the agent does not say; its CLI then decides alone.
    """

    ok: bool | None = None
    quiet: bool = False
    needs_you: str = ""
    summary: str = ""
    metrics: Mapping[str, object] = field(default_factory=dict)
