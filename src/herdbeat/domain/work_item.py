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
