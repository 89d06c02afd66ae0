"""The fleet: everything a configuration describes, validated and with every default resolved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.agent_run import ModelPrice
from herdbeat.domain.executor import ExecutorSettings
from herdbeat.domain.planner import PlannerSettings
from herdbeat.domain.policies import Budget
from herdbeat.domain.references import VARIABLES_KEY
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import Target
from herdbeat.domain.webhook import DEFAULT_MAX_BODY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAuth:
    """The header in which a proxy names the user, the addresses of such proxies, and what their users may do."""

    header: str
    addresses: tuple[str, ...]
    scope: str = "read"


DEFAULT_SERVER_PORT = 3232


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the server listens, and how it is reached from outside.

    `base_path` is the part of the path that a proxy leaves in front of ours. Only `trusted_proxies` may name the client
    that they act for.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_SERVER_PORT
    base_path: str = ""
    public_url: str = ""
    trusted_proxies: tuple[str, ...] = ()
    proxy_auth: ProxyAuth | None = None
    tls_cert: str = ""
    tls_key: str = ""

    @property
    def is_published(self) -> bool:
        """Whether something says that others than the user of this machine reach it."""
        return bool(self.public_url or self.base_path or self.trusted_proxies or self.proxy_auth)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """herdctl's block: the secret of schedules that state none themselves, and the size of a call in bytes.

    `port` opens nothing: calls arrive at the server's port.
    """

    enabled: bool = False
    port: int | None = None
    secret_env: str | None = None
    max_body: int = DEFAULT_MAX_BODY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history is kept: its maximum age, and the maximum number of beats per schedule."""

    age: timedelta = timedelta(days=30)
    beats: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMan:
    """A monitor elsewhere that alerts when herdbeat no longer calls it."""

    url: str = field(repr=False)
    every: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Targets and schedules in file order, and the settings they share.

    `home` is the folder of the first file; relative paths such as the store's are resolved against it. `is_sound` is
    False if invalid parts of the files were left out. `state_dir` is the folder of this machine's node if the ledger is
    in a database and it is not `.herdbeat` in `home`.
    """

    name: str
    zone: ZoneInfo
    targets: tuple[Target, ...]
    schedules: tuple[Schedule, ...]
    store: str
    server: ServerSettings
    max_concurrent: int | None = None
    budget: Budget | None = None
    description: str = ""
    files: tuple[str, ...] = ()
    home: str = ""
    is_sound: bool = True
    notify: Mapping[str, Mapping[str, object]] | None = None
    dead_man: DeadMan | None = None
    planner: PlannerSettings | None = None
    executors: ExecutorSettings = field(default_factory=ExecutorSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    retention: Retention = field(default_factory=Retention)
    egress_allow: tuple[str, ...] = ()
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    lease: timedelta = timedelta(seconds=30)
    check_interval: timedelta = timedelta(seconds=1)
    catchup_rate: int = 10
    stop_timeout: timedelta = timedelta(seconds=30)
    log_format: str = "text"
    state_dir: str = ""

    def target(self, name: str) -> Target | None:
        return next((target for target in self.targets if target.name == name), None)

    def schedule(self, label: str) -> Schedule | None:
        """Return the schedule called `target/name`, or by its target alone if it is the default schedule."""
        return next((schedule for schedule in self.schedules if label in (schedule.id, schedule.label)), None)


def list_fleet_variables(fleet: Fleet) -> tuple[str, ...]:
    """Return the names of the variables that its targets and schedules refer to."""
    names = {name for target in fleet.targets for name in target.spec.variables}
    names |= {name for target in fleet.targets for each in target.hooks.values() for name in _list_data_variables(each)}
    for schedule in fleet.schedules:
        names.update(schedule.variables, schedule.policies.variables, _list_data_variables([schedule.work_source]))
    return tuple(sorted(names))


def _list_data_variables(listed: object) -> Iterator[str]:
    for each in listed if isinstance(listed, list | tuple) else ():
        names = each.get(VARIABLES_KEY) if isinstance(each, Mapping) else None
        yield from map(str, names if isinstance(names, list | tuple) else ())
