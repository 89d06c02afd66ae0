"""The part of the transaction that is about incoming webhook calls."""

from collections.abc import Collection, Iterable
from datetime import datetime

from herdbeat.store.statements import Connection
from herdbeat.timestamps import to_micros


class SqlWebhooks:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def beat_find_many(self, pairs: Collection[tuple[int, str]]) -> dict[tuple[int, str], int]:
        rows = self._connection.query("known_beats", list(pairs)) if pairs else ()
        return {(schedule, dedup): number for schedule, dedup, number in rows}

    def beat_count_queued_events(self, schedule_ids: Iterable[int]) -> dict[int, int]:
        ids = list(schedule_ids)
        return dict(self._connection.query("queued_events", ids)) if ids else {}

    def beat_wake_held_events(self, schedule_id: int, now: datetime) -> None:
        self._connection.execute("wake_held_events", schedule=schedule_id, now=to_micros(now))

    def webhook_known_digests(self, pairs: Collection[tuple[int, str]], since: datetime) -> set[tuple[int, str]]:
        if not pairs:
            return set()
        rows = self._connection.query("known_webhook_digests", list(pairs), since=to_micros(since))
        return {(schedule, digest) for schedule, digest in rows}

    def webhook_add_digests(self, pairs: Collection[tuple[int, str]], now: datetime) -> None:
        if pairs:
            self._connection.execute_many("add_webhook_digests", list(pairs), now=to_micros(now))

    def webhook_drop_digests(self, before: datetime, limit: int) -> int:
        return self._connection.execute("drop_webhook_digests", before=to_micros(before), limit=limit)()
