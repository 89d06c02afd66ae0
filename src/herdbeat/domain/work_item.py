"""One piece of work that a source hands to a schedule."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """What the prompt may say about it. Everything in here comes from outside and is data, never instructions."""

    id: str
    title: str
    body: str = ""
    url: str = ""
    labels: tuple[str, ...] = ()
    assignee: str = ""
    priority: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
