"""The part of the transaction that is about claims of work items."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from herdbeat.domain.run import RunStatus
from herdbeat.domain.work_claim import NewWorkClaim, WorkClaimRecord
from herdbeat.store.record_mapping import read_work_claim
from herdbeat.store.rows import BeatRun
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros


class SqlWorkClaims:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def work_add(self, claim: NewWorkClaim, now: datetime) -> int | None:
        self._connection.execute("drop_blocked_item", source=claim.source, item=claim.item)
        added = self._connection.execute(
            "add_work_claim",
            source=claim.source,
            item=claim.item,
            marker=claim.marker,
            schedule=claim.schedule_id,
            run=claim.run_id,
            max_attempts=claim.max_attempts,
            data=dump_sanitized(dict(claim.data)),
            spec=dump_sanitized(dict(claim.spec)),
            host=claim.host,
            remembers=int(claim.remembers),
            now=to_micros(now),
        )
        return int(self._connection.query_one("work_claim_by_marker", marker=claim.marker)[0]) if added() else None

    def work_list_taken(self, source: str, items: Iterable[str]) -> frozenset[str]:
        return frozenset(self._connection.query("taken_items", items, source=source))

    def work_count_attempts(self, claim: WorkClaimRecord, offered_at: datetime | None) -> int:
        known = {"source": claim.source, "item": claim.item, "before": claim.id}
        if offered_at is None:
            return int(self._connection.query_one("attempts_since_end", **known)[0])
        return int(self._connection.query_one("attempts_since_offer", **known, since=to_micros(offered_at))[0])

    def work_confirm(
        self, claim_id: int, *, attempt: int, data: Mapping[str, object], offered_at: datetime | None
    ) -> bool:
        values = {"attempt": attempt, "data": dump_sanitized(dict(data)), "offered_at": to_micros(offered_at)}
        return self._connection.execute("confirm_work_claim", id=claim_id, **values)() > 0

    def work_get(self, ids: Iterable[int]) -> dict[int, WorkClaimRecord]:
        return {record.id: record for record in map(read_work_claim, self._connection.query("some_work_claims", ids))}

    def work_list_by_run(self, run_ids: Iterable[int]) -> list[WorkClaimRecord]:
        return [read_work_claim(row) for row in self._connection.query("work_claims_of_runs", run_ids)]

    def work_take_unsettled(self, now: datetime, until: datetime, host: str, limit: int) -> list[WorkClaimRecord]:
        rows = self._connection.query("unsettled_work_claims", now=to_micros(now), host=host, limit=limit)
        records = [read_work_claim(row) for row in rows]
        self._connection.execute_many("change_work_claims", [_columns(each, next_at=until) for each in records])
        return records

    def work_next_unsettled(self, host: str) -> datetime | None:
        row = self._connection.query_one("next_work_claim", host=host)
        return None if row is None or row[0] is None else from_micros(row[0])

    def work_take_over(self, host: str) -> None:
        self._connection.execute("end_work_leases")
        self._connection.execute("move_work_claims", host=host)

    def work_change(self, claims: Sequence[WorkClaimRecord]) -> None:
        self._connection.execute_many("change_work_claims", [_columns(each, next_at=each.next_at) for each in claims])

    def work_drop(self, before: datetime, limit: int) -> int:
        return self._connection.execute("drop_work_claims", before=to_micros(before), limit=limit)()

    def run_list_beside(self, beat_ids: Iterable[int]) -> list[BeatRun]:
        rows = self._connection.query("runs_beside", beat_ids)
        return [
            BeatRun(beat, run, RunStatus(status), error, attempt, error_code, bool(tool_called))
            for beat, run, status, error, attempt, error_code, tool_called in rows
        ]


def _columns(claim: WorkClaimRecord, *, next_at: datetime | None) -> tuple[object, ...]:
    report = None if claim.report is None else dump_sanitized(dict(claim.report))
    moment = 0 if next_at is None else to_micros(next_at)
    return (
        claim.id,
        claim.state,
        int(claim.used),
        report,
        claim.reason,
        claim.tries,
        moment,
        to_micros(claim.ended_at),
    )
