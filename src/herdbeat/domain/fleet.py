"""Everything a configuration describes, checked and resolved."""

from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    host: str = "127.0.0.1"
    port: int = 3232


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Targets and schedules in file order, and the settings they share."""

    name: str
    zone: ZoneInfo
    targets: tuple[Target, ...]
    schedules: tuple[Schedule, ...]
    store: str
    server: Server
    max_concurrent: int | None = None
    description: str = ""
    files: tuple[str, ...] = ()
    notify: Mapping[str, Mapping[str, object]] | None = None

    def target(self, name: str) -> Target | None:
        return next((target for target in self.targets if target.name == name), None)

    def schedule(self, label: str) -> Schedule | None:
        """Find by `target/name`, or by the target alone if its schedule is the default one."""
        return next((each for each in self.schedules if label in (each.id, each.label)), None)
