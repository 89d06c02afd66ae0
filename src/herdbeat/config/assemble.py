"""Drafts and settings -> the Fleet."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from herdbeat.codes import Code
from herdbeat.config.drafts import FleetFile, TargetSource
from herdbeat.config.entries import ScheduleSource, iter_schedule_sources
from herdbeat.config.foreign import warn_changed_fleet, warn_changed_schedule
from herdbeat.config.keys import fleet as keys
from herdbeat.config.keys.targets import TARGET_LEVEL_KEYS, TARGET_TABLES
from herdbeat.config.links import check_rule_targets
from herdbeat.config.merge import drop_keys
from herdbeat.config.policies import build_budget
from herdbeat.config.report import Diagnostics
from herdbeat.config.schedules import ResolvedSchedule, build_schedule
from herdbeat.config.settings import SectionReader
from herdbeat.config.targets import build_target
from herdbeat.config.values import ResolvedValue, iter_default_values, iter_explicit_values
from herdbeat.domain.fleet import Fleet, Retention, ServerSettings, WebhookSettings
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, Target, TargetKind
from herdbeat.located import ConfigNode, PlainData

DEFAULT_STORE_URL = "sqlite:.herdbeat/herdbeat.db"
_NON_TARGET_KEYS = frozenset(
    {"name", "schedules", *(name for key in TARGET_LEVEL_KEYS for name in (key.name, *key.aliases))}
)
_SCHEDULE_ONLY_KEYS = _NON_TARGET_KEYS - {keys.BUDGET.name}
"""What stands beside a name for the schedules alone. A budget there is the target's own: they share it."""


@dataclass(slots=True)
class FleetBuilder:
    """What can be used so far. Add drafts in file order, then make the fleet. `names` are those of all targets.

    `has_budget` says that the fleet has one as a whole, so nobody in it spends without end.
    """

    diagnostics: Diagnostics
    names: frozenset[str]
    has_budget: bool = False
    targets: list[Target] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    values: list[ResolvedValue] = field(default_factory=list)

    def add(self, target_source: TargetSource) -> None:
        """Take a target and those of its schedules that are right. What is wrong is reported and left out."""
        found = list(iter_schedule_sources(target_source, self.diagnostics))
        target = build_target(target_source, self.diagnostics, has_schedules=bool(found))
        read = [self._build_schedule(target_source, schedule_source) for schedule_source in found]
        if target is None or (not found and _is_missing_trigger(target_source, self.diagnostics)):
            return
        usable = [each for each in read if each is not None]
        self.targets.append(target)
        self.values.extend(_resolve_target_values(target_source))
        self.schedules.extend(each.schedule for each in usable)
        self.values.extend(value for each in usable for value in each.values)
        if not self.has_budget:
            _warn_missing_budget(target, target_source, [each.schedule for each in usable], self.diagnostics)

    def _build_schedule(self, target_source: TargetSource, schedule_source: ScheduleSource) -> ResolvedSchedule | None:
        errors_before = self.diagnostics.error_count
        if schedule_source.name not in target_source.imported:
            warn_changed_schedule(schedule_source, self.diagnostics)
        check_rule_targets(target_source, schedule_source.node, self.names, self.diagnostics)
        read = build_schedule(target_source, schedule_source, self.diagnostics)
        return None if self.diagnostics.error_count > errors_before or schedule_source.is_invalid else read

    def fleet(self, file: FleetFile) -> Fleet:
        """The fleet with the settings of its file; `values` then begins with them."""
        warn_changed_fleet(file.tree, self.diagnostics)
        settings = SectionReader(file.tree, "")
        fleet = _build_fleet(file, settings, self.targets, self.schedules, tuple(self.diagnostics.sources))
        self.values[:0] = settings.values
        return replace(fleet, is_sound=not self.diagnostics.error_count)


def has_fleet_budget(tree: ConfigNode) -> bool:
    """Whether a fleet file has one for all its schedules together."""
    block = tree.child(keys.BUDGET.name)
    return block is not None and bool(block.value)


def _build_fleet(
    file: FleetFile,
    settings: SectionReader,
    targets: Sequence[Target],
    schedules: Sequence[Schedule],
    files: tuple[str, ...],
) -> Fleet:
    identity = settings.section(keys.IDENTITY)
    retention = settings.section(keys.RETENTION)
    return Fleet(
        name=identity.get(keys.FLEET_NAME, _default_fleet_name(file)),
        description=identity.get(keys.FLEET_DESCRIPTION, ""),
        zone=settings.get(keys.TIMEZONE, file.zone.zone, file.zone.origin),
        store=settings.get(keys.STORE_URL, DEFAULT_STORE_URL),
        server=_build_server(settings),
        max_concurrent=settings.get_optional(keys.MAX_CONCURRENT),
        budget=build_budget(settings),
        lease=settings.get(keys.LEASE, timedelta(seconds=30)),
        check_interval=settings.get(keys.CHECK_INTERVAL, timedelta(seconds=1)),
        catchup_rate=settings.get(keys.CATCHUP_RATE, 10),
        stop_timeout=settings.get(keys.STOP_TIMEOUT, timedelta(seconds=30)),
        retention=Retention(age=retention.get(keys.AGE, timedelta(days=30)), beats=retention.get(keys.BEATS, 10_000)),
        egress_allow=settings.section(keys.EGRESS).get_optional(keys.ALLOW) or (),
        webhooks=_build_webhooks(settings.section(keys.WEBHOOKS)),
        notify=_build_notify_channels(settings),
        targets=tuple(targets),
        schedules=tuple(schedules),
        files=files,
        home=str(file.path.parent),
    )


def _default_fleet_name(file: FleetFile) -> str:
    return file.path.parent.name or "fleet"


def _build_server(settings: SectionReader) -> ServerSettings:
    """`server`, or what herdctl's `web` block says of host and port."""
    web = settings.node.child("web")
    host, port = keys.HOST.get(web), keys.PORT.get(web)
    own = settings.section(keys.SERVER)
    # "localhost" may resolve to an address that nobody listens on; herdctl means the loopback.
    host = None if host in (None, "localhost") else host
    return ServerSettings(host=own.get(keys.HOST, host or "127.0.0.1"), port=own.get(keys.PORT, port or 3232))


def _build_webhooks(settings: SectionReader) -> WebhookSettings:
    return WebhookSettings(
        enabled=settings.get(keys.WEBHOOKS_ENABLED, default=False),
        port=settings.get_optional(keys.WEBHOOK_PORT),
        secret_env=settings.get_optional(keys.SECRET_ENV),
    )


def _build_notify_channels(settings: SectionReader) -> dict[str, dict[str, object]]:
    settings.get_optional(keys.NOTIFY)
    node = settings.node.child("notify")
    plain: PlainData = node.to_data() if node is not None else None
    channels = plain if isinstance(plain, dict) else {}
    return {name: dict(channel) for name, channel in channels.items() if isinstance(channel, dict)}


def _resolve_target_values(target_source: TargetSource) -> list[ResolvedValue]:
    """What is written about the target itself, then the defaults of what is not."""
    path = f"{target_source.kind.section}.{target_source.name}"
    written = iter_explicit_values(drop_keys(target_source.node, *_SCHEDULE_ONLY_KEYS), path)
    return [
        *written,
        *iter_default_values(TARGET_TABLES[target_source.kind], target_source.node, path, exclude=_NON_TARGET_KEYS),
    ]


def _is_missing_trigger(target_source: TargetSource, diagnostics: Diagnostics) -> bool:
    """An agent may wait to be asked; a request or a program without a trigger is a slip."""
    if target_source.kind is TargetKind.AGENT:
        return False
    diagnostics.error(
        Code.MISSING_KEY,
        f'"{target_source.name}" has no trigger.',
        target_source.node.location,
        "Add every: 5m, cron: or at:; or type: manual, if only people and rules start it.",
    )
    return True


def _warn_missing_budget(
    target: Target, target_source: TargetSource, schedules: Sequence[Schedule], diagnostics: Diagnostics
) -> None:
    """Once per agent, and only where a herdbeat.yaml lists it: elsewhere nobody could have set one."""
    if target.budget is not None or not isinstance(target.spec, AgentSpec) or target.spec.runtime == "command":
        return
    if diagnostics.lenient or all(each.policies.budget is not None or not each.enabled for each in schedules):
        return
    diagnostics.warning(
        Code.NO_BUDGET,
        f'The agent "{target.name}" has no budget.',
        target_source.node.find(("name",)).location,
        "Set budget: { usd_per_day: 5 } on it, or for the whole fleet.",
    )
