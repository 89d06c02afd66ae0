"""The part of the SQL transaction for messages: incoming calls, the outbox, and the episodes that it reports."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.notification import ActiveCondition, Episode
from herdbeat.domain.outbox import DeliveryRecord, DeliveryState, NewDelivery
from herdbeat.store.episode_reader import read_episode
from herdbeat.store.outbox_reader import read_delivery
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros


class SqlOutbox:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def outbox_add(self, deliveries: Iterable[NewDelivery], now: datetime) -> None:
        self._connection.execute_many("add_deliveries", [_columns(each) for each in deliveries], now=to_micros(now))

    def outbox_take(
        self, now: datetime, until: datetime, *, fence: int, host: str, limit: int, is_alone: bool
    ) -> list[DeliveryRecord]:
        rows = self._connection.query("due_deliveries", now=to_micros(now), host=host, alone=int(is_alone), limit=limit)
        records = [read_delivery(row) for row in rows]
        self._connection.execute_many(
            "lease_deliveries", [each.id for each in records], until=to_micros(until), fence=fence
        )
        return [
            replace(
                each,
                state=DeliveryState.STARTED if each.is_once else each.state,
                attempts=each.attempts + 1,
                next_at=until,
                fence=fence,
            )
            for each in records
        ]

    def outbox_end(self, delivery: DeliveryRecord) -> bool:
        ended = self._connection.execute(
            "end_delivery",
            id=delivery.id,
            fence=delivery.fence,
            state=str(delivery.state),
            next_at=to_micros(delivery.next_at),
            error=delivery.error,
            ended_at=to_micros(delivery.ended_at),
        )
        return ended() > 0

    def outbox_defer_channel(self, channel: str, until: datetime) -> None:
        self._connection.execute("defer_channel", channel=channel, until=to_micros(until))

    def outbox_wake_channel(self, channel: str, now: datetime) -> None:
        self._connection.execute("wake_channel", channel=channel, now=to_micros(now))

    def outbox_end_leases(self, *, is_alone: bool) -> None:
        self._connection.execute("end_delivery_leases" if is_alone else "end_leases_of_dead_nodes")

    def outbox_end_started(self, now: datetime, error: str, *, is_alone: bool) -> int:
        return self._connection.execute(
            "end_started_deliveries", now=to_micros(now), error=error, alone=int(is_alone)
        )()

    def outbox_end_open(self, now: datetime, error: str) -> int:
        return self._connection.execute("end_open_deliveries", now=to_micros(now), error=error)()

    def outbox_next(self, host: str, *, is_alone: bool) -> datetime | None:
        row = self._connection.query_one("next_delivery", host=host, alone=int(is_alone))
        return None if row is None or row[0] is None else from_micros(row[0])

    def outbox_drop(self, before: datetime, limit: int) -> int:
        return self._connection.execute("drop_deliveries", before=to_micros(before), limit=limit)()


def _columns(delivery: NewDelivery) -> tuple[object, ...]:
    return (
        delivery.message_id,
        delivery.channel,
        str(delivery.kind),
        delivery.name,
        dump_sanitized(dict(delivery.spec)),
        dump_sanitized(dict(delivery.payload)),
        delivery.run_id,
        delivery.host,
        int(delivery.is_once),
    )


class SqlEpisodes:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def episode_list_live(self) -> list[Episode]:
        return sorted((read_episode(row) for row in self._connection.query("live_episodes")), key=lambda each: each.id)

    def episode_open_many(self, channel: str, conditions: Sequence[ActiveCondition], now: datetime) -> None:
        rows = [
            (channel, str(each.kind), each.subject, each.detail, to_micros(each.since), each.schedule_id)
            for each in conditions
        ]
        self._connection.execute_many("open_episodes", rows, now=to_micros(now))

    def episode_change_many(self, episodes: Sequence[Episode]) -> None:
        rows = [
            (
                each.id,
                each.detail,
                to_micros(each.clear_since),
                to_micros(each.ended_at),
                to_micros(each.told_at),
                to_micros(each.end_told_at),
                each.acked_by,
                to_micros(each.snoozed_until),
            )
            for each in episodes
        ]
        self._connection.execute_many("change_episodes", rows)

    def episode_drop(self, before: datetime, limit: int) -> int:
        return self._connection.execute("drop_episodes", before=to_micros(before), limit=limit)()


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
