"""A selection of schedules as a person writes it: names, patterns, tags, groups or everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Everything that was named. A schedule is selected if any part names it."""

    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    everything: bool = False

    def includes(self, target: str, name: str, tags: Sequence[str], group: str) -> bool:
        """Return whether it selects a schedule, which need not have existed when the selection was written."""
        if self.everything or set(self.tags).intersection(tags) or (group and group in self.groups):
            return True
        label = f"{target}/{name}"
        return any(fnmatchcase(label, each) if "*" in each else each in (label, target) for each in self.names)

    def describe(self) -> str:
        """Return for example `backup, tag nightly`."""
        if self.everything:
            return "all schedules"
        return ", ".join(
            [*self.names, *(f"tag {each}" for each in self.tags), *(f"group {each}" for each in self.groups)]
        )
