"""`delay` triggers: due once, at a given instant."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Self

from herdbeat.domain.trigger import TriggerKind
from herdbeat.timestamps import format_timestamp, parse_stored_timestamp, parse_timestamp
from herdbeat.triggers.variables import beat_variables, workflow_id


@dataclass(frozen=True, slots=True)
class Delay:
    """Fires once at `run_at`. `arm` counts how often the delay was armed; it fires once for each time.

    `is_workflow` marks a workflow of agentd: its prompts name the beat `delay:<workflow_id>`, as that tool does. The
    dedup id in the ledger is the same for both, or a delay that has fired would fire again after an upgrade.
    """

    kind: ClassVar[TriggerKind] = TriggerKind.DELAY
    interval: ClassVar[None] = None
    anchor: ClassVar[None] = None
    run_at: datetime
    arm: int = 1
    is_workflow: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse RFC 3339 with its offset. Raises TimeParseError, which says what is missing."""
        return cls(parse_timestamp(text))

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        is_workflow = options.get("workflow") == "true"
        return cls(parse_stored_timestamp(options["run_at"]), int(options.get("arm", "1")), is_workflow)

    def next_time(self, last: datetime | None, now: datetime) -> datetime | None:  # noqa: ARG002 -- the contract
        """Return `run_at`, also if it is past (it is then due at once); None once it has fired."""
        return self.run_at if last is None else None

    def dedup_id(self, due_at: datetime, schedule: str) -> str:  # noqa: ARG002 -- the contract of Trigger
        """Return an id without the instant: after a restart around `run_at` it shows that the delay has fired."""
        return f"{self.kind}:{schedule}" if self.arm == 1 else f"{self.kind}:{schedule}#{self.arm}"

    def variables(self, due_at: datetime, schedule: str) -> dict[str, str]:
        run_at = format_timestamp(self.run_at)
        extra = {"run_at": run_at}
        if self.is_workflow:
            extra["source_id"] = self.dedup_id(due_at, workflow_id(schedule))
        return beat_variables(self, due_at, schedule, f"Delay trigger: {run_at}", **extra)

    def describe(self) -> str:
        written = self.run_at.astimezone(UTC).strftime("%d %b %Y, %H:%M:%S UTC").lstrip("0")
        return f"once, {written.replace(':00 UTC', ' UTC')}"

    def options(self) -> dict[str, str]:
        options = {"run_at": format_timestamp(self.run_at), "arm": str(self.arm)}
        return options | ({"workflow": "true"} if self.is_workflow else {})
