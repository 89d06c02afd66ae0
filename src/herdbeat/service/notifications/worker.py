"""The notification worker: compares the conditions of the fleet with the episodes in the ledger, beside the loop.

Also reads what each channel wants to be notified of, and calls the dead-man monitor while the loop advances.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from herdbeat.config.schema.formats import parse_hours
from herdbeat.domain.fleet import DeadMan, Fleet
from herdbeat.domain.notification import FLEET_SUBJECT, RECOVERED, ActiveCondition, ChannelRules, ConditionKind, Episode
from herdbeat.domain.outbox import NewDelivery
from herdbeat.domain.policies import ActiveHours
from herdbeat.domain.records import NodeRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import parse_duration
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.notify.episodes import ChannelStep, advance_channel, build_message
from herdbeat.scheduler.timers import Timer
from herdbeat.service.notifications.conditions import ConditionSource
from herdbeat.service.notifications.digest import build_digest, find_due_digest
from herdbeat.store.base import Store, Transaction
from herdbeat.store.reader import Reader
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

CHECK_INTERVAL = timedelta(seconds=5)
MAX_CLEARING_CHECKS = 200
"""Schedules whose last runs are looked at in one check. The others end after their quiet minutes."""


@dataclass(slots=True)
class NotificationWorker:
    """Notifies the channels of one fleet. Used by the node; `wake_outbox` is called after messages were written."""

    store: Store
    reader: Reader
    timer: Timer
    fleet: Fleet
    pid: int
    wake_outbox: Callable[[], None]
    is_alone: bool = True
    reports_start: bool = True
    """Whether it begins with the node. Later, with the first channel, how the node before has ended is no news."""
    started_at: datetime = field(init=False)
    _last_digests: dict[str, datetime] = field(default_factory=dict)
    _has_live: bool = True
    """Whether the last check has left episodes whose end is not reported."""

    def __post_init__(self) -> None:
        self.started_at = self.timer.now()

    async def run(self) -> None:
        """Check until cancelled, by the channels that `fleet` has now."""
        source = ConditionSource(self.reader, self.started_at, self.pid)
        if self.reports_start:
            self.reports_start = False
            await self._run_safely(lambda: self._report_started(read_channels(self.fleet)))
        never = asyncio.Event()
        known: Fleet | None = None
        channels: tuple[ChannelRules, ...] = ()
        wanted = frozenset[ConditionKind]()
        while True:
            if known is not self.fleet:  # at the start, and after its files have changed
                known, channels = self.fleet, read_channels(self.fleet)
                wanted = frozenset(kind for each in channels for kind in each.conditions)
            if channels:
                await self._run_safely(partial(self._check, channels, source, wanted))
            await self.timer.sleep_until(self.timer.now() + CHECK_INTERVAL, never)

    async def report_stopped(self) -> None:
        """Report now that the fleet stops: conditions are not checked after this."""
        now = self.timer.now()
        channels = [each for each in read_channels(self.fleet) if ConditionKind.STOPPED in each.conditions]
        if not channels:
            return
        stopped = ActiveCondition(kind=ConditionKind.STOPPED, subject=FLEET_SUBJECT, since=now, detail=self.fleet.name)

        def write(tx: Transaction) -> None:
            for rules in channels:
                tx.episode_open_many(rules.name, [stopped], now)
            self._report_at_once(tx, channels, now)

        await self._run_safely(lambda: self.store.write(write))

    async def _report_started(self, channels: Sequence[ChannelRules]) -> None:
        """End what the stop began. After a crash no episode was opened: it is opened now, and ended."""
        now = self.timer.now()
        wanting = [each for each in channels if ConditionKind.STOPPED in each.conditions]
        if not wanting:
            return
        crashed = await call_in_thread(self._find_crashed) if self.is_alone else None

        def write(tx: Transaction) -> None:
            live = [each for each in tx.episode_list_live() if each.condition is ConditionKind.STOPPED]
            if crashed is not None and not live:
                detail = f"{self.fleet.name} crashed or was killed"
                condition = ActiveCondition(
                    kind=ConditionKind.STOPPED, subject=FLEET_SUBJECT, since=crashed.seen_at, detail=detail
                )
                for rules in wanting:
                    tx.episode_open_many(rules.name, [condition], now)
                self._report_at_once(tx, wanting, now)

        await self.store.write(write)
        self.wake_outbox()

    def _find_crashed(self) -> NodeRecord | None:
        nodes = sorted(self.reader.nodes(2), key=lambda each: each.id)
        previous = nodes[0] if len(nodes) > 1 else None
        return previous if previous is not None and previous.stopped_at is None else None

    def _report_at_once(self, tx: Transaction, channels: Sequence[ChannelRules], now: datetime) -> None:
        by_name = {each.name: each for each in channels}
        reported: list[Episode] = []
        messages: list[NewDelivery] = []
        for episode in tx.episode_list_live():
            rules = by_name.get(episode.channel)
            if rules is None or rules.is_quiet(now):
                continue  # what quiet hours hold back is reported at their end, as over by then
            if episode.condition is ConditionKind.STOPPED and episode.told_at is None:
                reported.append(replace(episode, told_at=now))
                messages.append(build_message(rules, episode.condition, [episode], now, self._public_url))
        tx.episode_change_many(reported)
        tx.outbox_add(messages, now)

    async def _check(
        self, channels: Sequence[ChannelRules], source: ConditionSource, wanted: frozenset[ConditionKind]
    ) -> None:
        """Advance all channels by what is wrong now, and write what follows in one transaction."""
        now = self.timer.now()
        active = await call_in_thread(source.read, now, wanted)
        open_episodes = await call_in_thread(lambda: self.reader.episodes(only_open=True, limit=1))
        due = self._find_due_digests(channels, now)
        digests = [await call_in_thread(self._build_digest, rules, at) for rules, at in due]
        if not active and not open_episodes and not digests and not self._has_live:
            return  # as nearly always: nothing is written
        recovered = await call_in_thread(self._find_recovered, now)
        silent = await call_in_thread(source.list_paused_schedules, now)

        def advance(tx: Transaction) -> int:
            live = tx.episode_list_live()
            steps = [
                (
                    rules,
                    advance_channel(
                        rules,
                        [each for each in live if each.channel == rules.name],
                        active,
                        now,
                        recovered=recovered,
                        silent=silent,
                        public_url=self._public_url,
                    ),
                )
                for rules in channels
            ]
            for rules, step in steps:
                _write(tx, rules, step, now)
            tx.outbox_add(digests, now)
            self._has_live = bool(live or active)
            return len(digests) + sum(len(step.messages) for _, step in steps)

        written = await self.store.write(advance)
        self._last_digests |= {rules.name: at for rules, at in due}
        if written:
            self.wake_outbox()

    def _find_due_digests(self, channels: Sequence[ChannelRules], now: datetime) -> list[tuple[ChannelRules, datetime]]:
        """Return the channels whose digest is due. Their ids are unique, so that a restart sends none twice."""
        found = [(rules, find_due_digest(rules, self.fleet.zone, now)) for rules in channels]
        return [(rules, at) for rules, at in found if at is not None and self._last_digests.get(rules.name) != at]

    def _build_digest(self, rules: ChannelRules, at: datetime) -> NewDelivery:
        return build_digest(self.reader, rules, self.fleet.zone, at, self._public_url)

    def _find_recovered(self, now: datetime) -> frozenset[int]:  # noqa: ARG002 -- as all of them
        """Return schedules with two good runs since their condition was gone."""
        clearing = [each for each in self.reader.episodes(only_open=True, limit=10_000) if each.clear_since is not None]
        found = set()
        for each in clearing[:MAX_CLEARING_CHECKS]:
            if each.schedule_id is None or each.clear_since is None:
                continue
            runs = self.reader.past_runs(each.schedule_id, limit=2)
            is_good = [run.status is RunStatus.SUCCEEDED and run.started_at >= each.began_at for run in runs]
            if len(is_good) == 2 and all(is_good):
                found.add(each.schedule_id)
        return frozenset(found)

    @property
    def _public_url(self) -> str:
        return self.fleet.server.public_url

    async def _run_safely(self, work: Callable[[], object]) -> None:
        try:
            await work()  # type: ignore[misc]
        except (StoreUnavailable, ClaimLost) as error:
            log.warning("conditions not checked error=%s retry in %s", error, CHECK_INTERVAL)


def _write(tx: Transaction, rules: ChannelRules, step: ChannelStep, now: datetime) -> None:
    tx.episode_open_many(rules.name, step.opened, now)
    tx.episode_change_many(step.changed)
    tx.outbox_add(step.messages, now)


log = logging.getLogger(__name__)


async def ping_dead_man(
    find_dead_man: Callable[[], DeadMan | None],
    changed: asyncio.Event,
    timer: Timer,
    count_cycles: Callable[[], int],
    ping: Callable[[str], Awaitable[str]],
) -> None:
    """Call the monitor until cancelled, each time only if the loop has completed a cycle since the last call.

    `changed` is set after the files have changed. `ping` returns what went wrong; empty if nothing did.
    """
    seen = 0
    while True:
        changed.clear()
        dead_man, cycles = find_dead_man(), count_cycles()
        if dead_man is None:
            await changed.wait()
            continue
        if cycles != seen:
            seen = cycles
            problem = await ping(dead_man.url)
            if problem:
                log.warning("dead man not called error=%s retry in %s", problem, dead_man.every)
        await timer.sleep_until(timer.now() + dead_man.every, changed)


DEFAULT_CONDITIONS = (
    *(ConditionKind.MISSED, ConditionKind.FAILING, ConditionKind.NEEDS_YOU, ConditionKind.NODE_LOST),
    RECOVERED,
)


def read_channels(fleet: Fleet) -> tuple[ChannelRules, ...]:
    """Return the rules of all channels. They are valid: loading the file has checked them."""
    return tuple(_read_rules(name, spec, fleet.zone) for name, spec in (fleet.notify or {}).items())


def _read_rules(name: str, spec: Mapping[str, object], zone: ZoneInfo) -> ChannelRules:
    listed = spec.get("conditions")
    conditions = [str(each) for each in listed] if isinstance(listed, list | tuple) else list(DEFAULT_CONDITIONS)
    only = spec.get("only")
    selected = only if isinstance(only, Mapping) else {}
    return ChannelRules(
        name=name,
        conditions=frozenset(ConditionKind(each) for each in conditions if each != RECOVERED),
        tells_end=RECOVERED in conditions,
        failing_after=int(str(spec.get("failing_after", 1))),
        tags=_read_names(selected.get("tags")),
        targets=_read_names(selected.get("targets")),
        schedules=_read_names(selected.get("schedules")),
        quiet_hours=_read_hours(spec.get("quiet_hours"), zone),
        digest=str(spec.get("digest") or ""),
        group_within=parse_duration(str(spec.get("group_within", "30s"))),
    )


def _read_names(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list | tuple) else frozenset()


def _read_hours(written: object, zone: ZoneInfo) -> ActiveHours | None:
    if written is None:
        return None
    opens, closes = parse_hours(str(written))
    return ActiveHours(opens=opens, closes=closes, zone=zone)
