"""Drafts and settings -> the Fleet."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from herdbeat.codes import Code
from herdbeat.config.drafts import Draft, FleetFile
from herdbeat.config.entries import Entry, entries
from herdbeat.config.foreign import note_changed_fleet, note_changed_schedule
from herdbeat.config.keys import fleet as keys
from herdbeat.config.keys.targets import BESIDE, TABLES
from herdbeat.config.links import check_siblings
from herdbeat.config.merge import without
from herdbeat.config.policies import read_budget
from herdbeat.config.report import Report
from herdbeat.config.schedules import ReadSchedule, read_schedule
from herdbeat.config.settings import Settings
from herdbeat.config.targets import read_target
from herdbeat.config.values import Value, default_values, written_values
from herdbeat.domain.fleet import Fleet, Retention, Server, Webhooks
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, Target, TargetKind
from herdbeat.located import Located, Plain

DEFAULT_STORE = "sqlite:.herdbeat/herdbeat.db"
_NOT_OWN = frozenset({"name", "schedules", *(name for key in BESIDE for name in (key.name, *key.aliases))})
_OF_SCHEDULES = _NOT_OWN - {keys.BUDGET.name}
"""What stands beside a name for the schedules alone. A budget there is the target's own: they share it."""


@dataclass(slots=True)
class Assembly:
    """What can be used so far. Add drafts in file order, then make the fleet. `names` are those of all targets.

    `has_budget` says that the fleet has one as a whole, so nobody in it spends without end.
    """

    report: Report
    names: frozenset[str]
    has_budget: bool = False
    targets: list[Target] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add(self, draft: Draft) -> None:
        """Take a target and those of its schedules that are right. What is wrong is reported and left out."""
        found = list(entries(draft, self.report))
        target = read_target(draft, self.report, has_schedules=bool(found))
        read = [self._read(draft, entry) for entry in found]
        if target is None or (not found and _is_idle(draft, self.report)):
            return
        usable = [each for each in read if each is not None]
        self.targets.append(target)
        self.values.extend(_target_values(draft))
        self.schedules.extend(each.schedule for each in usable)
        self.values.extend(value for each in usable for value in each.values)
        if not self.has_budget:
            _note_missing_budget(target, draft, [each.schedule for each in usable], self.report)

    def _read(self, draft: Draft, entry: Entry) -> ReadSchedule | None:
        mark = self.report.errors
        if entry.name not in draft.imported:
            note_changed_schedule(entry, self.report)
        check_siblings(draft, entry.node, self.names, self.report)
        read = read_schedule(draft, entry, self.report)
        return None if self.report.errors > mark or entry.is_refused else read

    def fleet(self, file: FleetFile) -> Fleet:
        """The fleet with the settings of its file; `values` then begins with them."""
        note_changed_fleet(file.tree, self.report)
        settings = Settings(file.tree, "")
        fleet = _fleet(file, settings, self.targets, self.schedules, tuple(self.report.sources))
        self.values[:0] = settings.values
        return replace(fleet, is_sound=not self.report.errors)


def has_budget(tree: Located) -> bool:
    """Whether a fleet file has one for all its schedules together."""
    block = tree.child(keys.BUDGET.name)
    return block is not None and bool(block.value)


def _fleet(
    file: FleetFile,
    settings: Settings,
    targets: Sequence[Target],
    schedules: Sequence[Schedule],
    files: tuple[str, ...],
) -> Fleet:
    identity = settings.inside(keys.IDENTITY)
    retention = settings.inside(keys.RETENTION)
    return Fleet(
        name=identity.take(keys.FLEET_NAME, _folder_name(file)),
        description=identity.take(keys.FLEET_DESCRIPTION, ""),
        zone=settings.take(keys.TIMEZONE, file.zone.zone, file.zone.origin),
        store=settings.take(keys.STORE_URL, DEFAULT_STORE),
        server=_server(settings),
        max_concurrent=settings.maybe(keys.MAX_CONCURRENT),
        budget=read_budget(settings),
        lease=settings.take(keys.LEASE, timedelta(seconds=30)),
        check_interval=settings.take(keys.CHECK_INTERVAL, timedelta(seconds=1)),
        catchup_rate=settings.take(keys.CATCHUP_RATE, 10),
        stop_timeout=settings.take(keys.STOP_TIMEOUT, timedelta(seconds=30)),
        retention=Retention(age=retention.take(keys.AGE, timedelta(days=30)), beats=retention.take(keys.BEATS, 10_000)),
        egress_allow=settings.inside(keys.EGRESS).maybe(keys.ALLOW) or (),
        webhooks=_webhooks(settings.inside(keys.WEBHOOKS)),
        notify=_notify(settings),
        targets=tuple(targets),
        schedules=tuple(schedules),
        files=files,
        home=str(file.path.parent),
    )


def _folder_name(file: FleetFile) -> str:
    return file.path.parent.name or "fleet"


def _server(settings: Settings) -> Server:
    """`server`, or what herdctl's `web` block says of host and port."""
    web = settings.node.child("web")
    host, port = keys.HOST.of(web), keys.PORT.of(web)
    own = settings.inside(keys.SERVER)
    # "localhost" may resolve to an address that nobody listens on; herdctl means the loopback.
    host = None if host in (None, "localhost") else host
    return Server(host=own.take(keys.HOST, host or "127.0.0.1"), port=own.take(keys.PORT, port or 3232))


def _webhooks(settings: Settings) -> Webhooks:
    return Webhooks(
        enabled=settings.take(keys.WEBHOOKS_ENABLED, default=False),
        port=settings.maybe(keys.WEBHOOK_PORT),
        secret_env=settings.maybe(keys.SECRET_ENV),
    )


def _notify(settings: Settings) -> dict[str, dict[str, object]]:
    settings.maybe(keys.NOTIFY)
    node = settings.node.child("notify")
    plain: Plain = node.plain() if node is not None else None
    channels = plain if isinstance(plain, dict) else {}
    return {name: dict(channel) for name, channel in channels.items() if isinstance(channel, dict)}


def _target_values(draft: Draft) -> list[Value]:
    """What is written about the target itself, then the defaults of what is not."""
    path = f"{draft.kind.section}.{draft.name}"
    written = written_values(without(draft.node, *_OF_SCHEDULES), path)
    return [*written, *default_values(TABLES[draft.kind], draft.node, path, leave_out=_NOT_OWN)]


def _is_idle(draft: Draft, report: Report) -> bool:
    """An agent may wait to be asked; a request or a program without a trigger is a slip."""
    if draft.kind is TargetKind.AGENT:
        return False
    report.error(
        Code.MISSING_KEY,
        f'"{draft.name}" has no trigger.',
        draft.node.place,
        "Add every: 5m, cron: or at:; or type: manual, if only people and rules start it.",
    )
    return True


def _note_missing_budget(target: Target, draft: Draft, schedules: Sequence[Schedule], report: Report) -> None:
    """Once per agent, and only where a herdbeat.yaml lists it: elsewhere nobody could have set one."""
    if target.budget is not None or not isinstance(target.spec, AgentSpec) or target.spec.runtime == "command":
        return
    if report.is_mild or all(each.policies.budget is not None or not each.enabled for each in schedules):
        return
    report.warning(
        Code.NO_BUDGET,
        f'The agent "{target.name}" has no budget.',
        draft.node.find(("name",)).place,
        "Set budget: { usd_per_day: 5 } on it, or for the whole fleet.",
    )
