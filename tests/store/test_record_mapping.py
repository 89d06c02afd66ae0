"""Records are built by the names of their columns, in whatever order a statement has them."""

from datetime import UTC, datetime

from herdbeat.domain.records import NodeRecord
from herdbeat.store.record_mapping import read_records

COLUMNS = ["pid", "id", "host", "version", "seen_at", "started_at", "stopped_at", "lease_until", "labels", "works"]


def test_columns_may_come_in_any_order() -> None:
    row = [42, 1, "box", "1.0", 1_000_000, 0, None, None, '["gpu"]', 1]

    (node,) = read_records(NodeRecord, COLUMNS, [row])

    assert (node.id, node.pid, node.labels, node.works) == (1, 42, ("gpu",), True)
    assert node.seen_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert node.stopped_at is None
