"""Doctor names receivers that do not take their messages."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdbeat.domain.outbox import DeliveryState
from herdbeat.notify.episodes import build_notification
from herdbeat.service.maintenance.doctor.fleet import check_receivers
from herdbeat.store.sqlite.store import SqliteStore

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def test_a_receiver_that_refuses_is_a_problem_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "herdbeat.db"
    message = build_notification("ops", "failing:1", {"text": "it fails"}, name="failing")
    with closing(SqliteStore(path)) as store:
        store.open()
        store.write_now(lambda tx: tx.outbox_add([message], NOON))
        assert list(check_receivers(path)) == []
        for attempt in range(2):
            at = NOON + timedelta(hours=attempt)
            (taken,) = store.write_now(
                lambda tx, at=at: tx.outbox_take(at, at, fence=1, host="", limit=1, is_alone=True)  # type: ignore[misc]
            )
            failed = replace(taken, state=DeliveryState.PENDING, error="ops.example.com answered 500.", next_at=at)
            store.write_now(lambda tx, failed=failed: tx.outbox_end(failed))  # type: ignore[misc]

        (finding,) = check_receivers(path)

    assert finding.text == "ops: 1 message not delivered after 2 attempts: ops.example.com answered 500."


def test_without_a_ledger_there_is_nothing_to_report(tmp_path: Path) -> None:
    assert list(check_receivers(tmp_path / "herdbeat.db")) == []
