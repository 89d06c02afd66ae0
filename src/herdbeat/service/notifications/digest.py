"""The digest of a channel: what ran, failed and was missed since the last one, which work items are done, what it cost,
and what is coming."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.notification import ChannelRules
from herdbeat.domain.outbox import NewDelivery
from herdbeat.domain.records import ScheduleRecord
from herdbeat.domain.run import RunStatus
from herdbeat.domain.work_claim import WorkClaimView
from herdbeat.errors import truncate_for_message
from herdbeat.notify.episodes import build_notification
from herdbeat.store.reader import Reader
from herdbeat.store.record_mapping import read_plan
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.cron import Cron

MAX_DIGEST_DELAY = timedelta(hours=1)
"""A digest that is later than this is left out: its figures are in the next one."""

MAX_DIGEST_SPAN = timedelta(days=31)
MAX_SEARCHED_SCHEDULES = 1_000
MAX_SEARCHED_ITEMS = 1_000
_MAX_NAMES = 5
_MAX_TITLE_CHARS = 60


def find_due_digest(rules: ChannelRules, zone: ZoneInfo, now: datetime) -> datetime | None:
    """Return the newest instant at which a digest was due in the last hour; its id makes it unique."""
    if not rules.digest:
        return None
    return Cron.parse(rules.digest, zone).latest(now - MAX_DIGEST_DELAY, now)


def build_digest(reader: Reader, rules: ChannelRules, zone: ZoneInfo, at: datetime, public_url: str) -> NewDelivery:
    """Return the digest of the time since the instant before, at most a month, about what the channel is about."""
    earliest = at - MAX_DIGEST_SPAN
    since = Cron.parse(rules.digest, zone).latest(earliest, at - timedelta(seconds=1)) or earliest
    figures = _count(reader, rules, since, at)
    upcoming = _find_upcoming(reader, rules, at)
    payload: dict[str, object] = {
        "type": "herdbeat.digest",
        "timestamp": format_timestamp(at),
        "condition": "digest",
        "since": format_timestamp(since),
        "succeeded": figures.succeeded,
        "failed": dict(figures.failed),
        "rate_limited": dict(figures.limited),
        "missed": figures.missed.total(),
        "done": [{"schedule": each.label, "item": each.claim.item, "title": each.claim.title} for each in figures.done],
        "cost_usd": None if figures.usd is None else round(figures.usd, 6),
        "upcoming": [each.label for each in upcoming],
        "text": _describe(figures, upcoming, since, zone),
        "url": public_url or None,
    }
    return build_notification(rules.name, f"digest:{rules.name}:{format_timestamp(at)}", payload, name="digest")


@dataclass(slots=True)
class _Figures:
    """What happened. `usd` is None if nothing has a known cost.

    A run that was refused at a usage limit is in `limited`, and not a failure: its beat waits for the account.
    """

    succeeded: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    limited: Counter[str] = field(default_factory=Counter)
    done: list[WorkClaimView] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)
    usd: float | None = None


def _count(reader: Reader, rules: ChannelRules, since: datetime, until: datetime) -> _Figures:
    figures = _Figures()
    tags: dict[int, tuple[str, ...]] = {}

    def selects(label: str, plan_id: int) -> bool:
        if rules.tags and plan_id not in tags:
            tags[plan_id] = read_plan(reader.plan_text(plan_id)).policies.tags
        return rules.selects(label, tags.get(plan_id, ()))

    for ended in reader.runs_ended_between(since, until):
        if selects(ended.label, ended.plan_id):
            figures.succeeded += ended.runs if ended.status is RunStatus.SUCCEEDED else 0
            figures.failed[ended.label] += ended.runs - ended.limited if ended.status.is_failure else 0
            figures.limited[ended.label] += ended.limited
            figures.usd = figures.usd if ended.usd is None else (figures.usd or 0.0) + ended.usd
    for missed in reader.missed_between(since, until):
        if selects(missed.label, missed.plan_id):
            figures.missed[missed.label] += missed.instants
    selected = set(figures.failed)
    figures.done = [
        each for each in reader.work_done_between(since, until, MAX_SEARCHED_ITEMS) if each.label in selected
    ]
    figures.failed, figures.limited = +figures.failed, +figures.limited
    return figures


def _find_upcoming(reader: Reader, rules: ChannelRules, at: datetime) -> list[ScheduleRecord]:
    soonest = reader.schedules_by_id(reader.upcoming_schedules(at, MAX_SEARCHED_SCHEDULES))
    wanted = [each for each in soonest if rules.selects(each.label, each.plan.policies.tags)]
    return wanted[:_MAX_NAMES]


def _describe(figures: _Figures, upcoming: Sequence[ScheduleRecord], since: datetime, zone: ZoneInfo) -> str:
    succeeded = "1 run" if figures.succeeded == 1 else f"{figures.succeeded:,} runs"
    counts = f"{succeeded} succeeded, {figures.failed.total():,} failed"
    missed = "1 beat was missed" if figures.missed.total() == 1 else f"{figures.missed.total():,} beats were missed"
    lines = [f"Since {since.astimezone(zone):%Y-%m-%d %H:%M}: {counts}, {missed}."]
    if figures.done:
        lines.append(_list_names("Done", [_describe_item(each) for each in figures.done]))
    counters = {"Failed": figures.failed, "Missed": figures.missed, "Waited for a usage limit": figures.limited}
    for word, counter in counters.items():
        if counter:
            lines.append(_list_names(word, [f"{name} ({count:,})" for name, count in counter.most_common()]))
    if figures.usd is not None:
        lines.append(f"Cost: ${figures.usd:,.2f}")
    if upcoming:
        lines.append(f"Next: {', '.join(_describe_next(each, zone) for each in upcoming)}")
    return "\n".join(lines)


def _list_names(word: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return f"{word}: {', '.join(names[:_MAX_NAMES])}{more}"


def _describe_item(done: WorkClaimView) -> str:
    """Return an item and its title, which people outside may have written, on one line."""
    title = truncate_for_message(done.claim.title, _MAX_TITLE_CHARS)
    return f"{done.claim.item} {title}" if title and title != done.claim.item else done.claim.item


def _describe_next(schedule: ScheduleRecord, zone: ZoneInfo) -> str:
    next_at = schedule.next_run_at
    return schedule.label if next_at is None else f"{schedule.label} at {next_at.astimezone(zone):%a %H:%M}"
