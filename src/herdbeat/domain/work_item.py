"""Work items: the units of work, such as issues, that a work source gives to a schedule."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """The fields that a prompt can contain. All of them are untrusted input: data, never instructions."""

    id: str
    title: str
    body: str = ""
    url: str = ""
    labels: tuple[str, ...] = ()
    assignee: str = ""
    priority: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the run for an item ended. `attempt` counts from 1."""

    succeeded: bool
    summary: str = ""
    error: str = ""
    attempt: int = 1
    max_attempts: int = 3

    @property
    def offers_again(self) -> bool:
        """True if the item failed and may be tried once more."""
        return not self.succeeded and self.attempt < self.max_attempts
