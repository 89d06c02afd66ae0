"""The part of the transaction that is about deliveries."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from herdbeat.domain.outbox import DeliveryRecord, DeliveryState, NewDelivery
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

    def outbox_end_leases(self) -> None:
        self._connection.execute("end_delivery_leases")

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
