"""Reading deliveries. A part of the reader of the ledger."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from herdbeat.timestamps import from_micros

if TYPE_CHECKING:
    from herdbeat.domain.outbox import DeliveryKind, DeliveryRecord


class OutboxReader(ABC):
    """A base of `Reader`, which knows how to query."""

    @abstractmethod
    def _query(self, statement: str, **values: object) -> list[Any]: ...

    def deliveries_of_run(self, run_id: int) -> "list[DeliveryRecord]":
        """Return what the hooks of a run have sent or have to send, in their order."""
        return [read_delivery(row) for row in self._query("deliveries_of_run", run=run_id)]

    def deliveries(
        self, kind: "DeliveryKind | None" = None, *, only_open: bool = False, limit: int = 100
    ) -> "list[DeliveryRecord]":
        """Return deliveries, the newest first."""
        rows = self._query("list_deliveries", kind=str(kind or ""), open=int(only_open), limit=limit)
        return [read_delivery(row) for row in rows]


def read_delivery(row: Sequence[Any]) -> "DeliveryRecord":
    """Read the columns of `delivery_columns`."""

    from herdbeat.domain.outbox import DeliveryKind, DeliveryRecord, DeliveryState  # noqa: PLC0415 - few commands need it

    (number, message_id, channel, kind, name, spec, payload, run_id, host, is_once, *progress) = row
    state, attempts, next_at, fence, created_at, ended_at, error = progress
    return DeliveryRecord(
        id=number,
        message_id=message_id,
        channel=channel,
        kind=DeliveryKind(kind),
        name=name,
        spec=json.loads(spec),
        payload=json.loads(payload),
        run_id=run_id,
        host=host,
        is_once=bool(is_once),
        state=DeliveryState(state),
        attempts=attempts,
        next_at=from_micros(next_at),
        fence=fence,
        created_at=from_micros(created_at),
        ended_at=None if ended_at is None else from_micros(ended_at),
        error=error,
    )
