"""The digest of a channel: what ran, failed and was missed since the last one, what it cost, and what is coming."""

from collections import Counter
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from herdbeat.domain.notification import ChannelRules
from herdbeat.domain.outbox import NewDelivery
from herdbeat.domain.run import RunStatus
from herdbeat.notify.episodes import build_notification
from herdbeat.store.reader import Filter, Reader
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers.cron import Cron

MAX_DIGEST_DELAY = timedelta(hours=1)
"""A digest that is later than this is left out: its figures are in the next one."""

MAX_DIGEST_SPAN = timedelta(days=31)
MAX_COUNTED_ROWS = 100_000
_MAX_NAMES = 5


def find_due_digest(rules: ChannelRules, zone: ZoneInfo, now: datetime) -> datetime | None:
    """Return the newest instant at which a digest was due in the last hour; its id makes it unique."""
    if not rules.digest:
        return None
    return Cron.parse(rules.digest, zone).latest(now - MAX_DIGEST_DELAY, now)


def build_digest(reader: Reader, rules: ChannelRules, zone: ZoneInfo, at: datetime, public_url: str) -> NewDelivery:
    """Return the digest of the time since the instant before; at most of a month."""
    channel, earliest = rules.name, at - MAX_DIGEST_SPAN
    since = Cron.parse(rules.digest, zone).latest(earliest, at - timedelta(seconds=1)) or earliest
    runs = reader.runs(Filter(since=since, limit=MAX_COUNTED_ROWS))
    statuses = Counter(run.status for run in runs)
    failed = Counter(run.schedule for run in runs if run.status.is_failure)
    missed = [beat for beat in reader.beats(Filter(since=since, limit=MAX_COUNTED_ROWS)) if beat.outcome == "missed"]
    costs = [cost.usd for cost in reader.costs(since.date().isoformat()) if cost.usd is not None]
    upcoming = [each.label for each in reader.schedules_by_id(reader.upcoming_schedules(at, _MAX_NAMES))]
    counts = f"{statuses[RunStatus.SUCCEEDED]:,} runs succeeded, {sum(failed.values()):,} failed"
    lines = [
        f"Since {since:%Y-%m-%d %H:%M} UTC: {counts}, {sum(beat.count for beat in missed):,} beats were missed.",
        *([f"Failed: {', '.join(name for name, _ in failed.most_common(_MAX_NAMES))}"] if failed else []),
        *([f"Cost: ${sum(costs):,.2f}"] if costs else []),
        *([f"Next: {', '.join(upcoming)}"] if upcoming else []),
    ]
    payload: dict[str, object] = {
        "type": "herdbeat.digest",
        "timestamp": format_timestamp(at),
        "condition": "digest",
        "since": format_timestamp(since),
        "succeeded": statuses[RunStatus.SUCCEEDED],
        "failed": dict(failed),
        "missed": sum(beat.count for beat in missed),
        "cost_usd": round(sum(costs), 6) if costs else None,
        "upcoming": upcoming,
        "text": "\n".join(lines),
        "url": public_url or None,
    }
    return build_notification(channel, f"digest:{channel}:{format_timestamp(at)}", payload, name="digest")
