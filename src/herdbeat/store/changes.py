"""What people and machines change: the record of it, and what only a change by hand touches."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from herdbeat.domain.change import Change, ChangeData
from herdbeat.domain.hint import Hint
from herdbeat.domain.schedule import display_name
from herdbeat.store.catalogue import CHUNK_ROWS, SqlFleetTransaction
from herdbeat.store.micros import to_micros
from herdbeat.store.rows import EnabledInFile
from herdbeat.store.statements import dump_sanitized

_MICROSECOND = timedelta(microseconds=1)


class SqlChangeTransaction(SqlFleetTransaction):
    def add_changes(self, changes: Sequence[Change]) -> None:
        texts = _ChangeDataEncoder()
        for start in range(0, len(changes), CHUNK_ROWS):
            self._connection.execute_many(
                "add_changes", [_change_row(each, texts) for each in changes[start : start + CHUNK_ROWS]]
            )

    def drop_changes(self, before: datetime, most: int, limit: int) -> int:
        return self._connection.execute("drop_changes", before=to_micros(before), most=most, limit=limit)()

    def schedule_get_enabled(self, ids: Iterable[int]) -> dict[int, EnabledInFile]:
        rows = self._connection.query("switches", ids)
        return {
            number: EnabledInFile(display_name(target, name), bool(enabled), origin)
            for number, target, name, enabled, origin in rows
        }

    def schedule_rearm(self, ids: Sequence[int]) -> None:
        self._connection.execute_many("arm_again", ids)

    def schedule_reset_failures(self, schedule_id: int) -> None:
        self._connection.execute("forget_failures", id=schedule_id)

    def extend_hint(self, schedule_id: int, hint: Hint, now: datetime) -> bool:
        row_count = self._connection.execute(
            "extend_hint",
            id=schedule_id,
            origin=hint.origin,
            reason=hint.reason,
            every=None if hint.every is None else hint.every // _MICROSECOND,
            at=to_micros(hint.at),
            expires_at=to_micros(hint.expires_at),
            now=to_micros(now),
        )
        return row_count() > 0

    def hint_end_by_rank(self, schedule_id: int, ranks: Sequence[str], now: datetime, by: str) -> None:
        self._connection.execute_many("end_hints_of", ranks, id=schedule_id, now=to_micros(now), by=by)
        self._connection.execute("count_hints", id=schedule_id)

    def hint_count_recent(self, schedule_id: int, origin: str, since: datetime) -> int:
        (found,) = self._connection.query_one("recent_hints", id=schedule_id, origin=origin, since=to_micros(since))
        return int(found)

    def trim_hints(self, schedule_id: int, rank: str, now: datetime, *, one_shots: int, ended: int) -> None:
        self._connection.execute("end_surplus_one_shots", id=schedule_id, rank=rank, most=one_shots, now=to_micros(now))
        self._connection.execute("forget_ended_hints", id=schedule_id, most=ended)
        self._connection.execute("count_hints", id=schedule_id)


class _ChangeDataEncoder:
    """Facts as JSON. The first start of a large fleet says the same of thousands: that is written once."""

    def __init__(self) -> None:
        self._encoded: dict[int, str] = {}

    def encode(self, facts: ChangeData | None) -> str | None:
        if facts is None:
            return None
        if id(facts) not in self._encoded:
            self._encoded[id(facts)] = dump_sanitized(dict(facts))
        return self._encoded[id(facts)]


def _change_row(change: Change, texts: _ChangeDataEncoder) -> tuple[object, ...]:
    before, after = texts.encode(change.before), texts.encode(change.after)
    return to_micros(change.at), change.who, change.what, change.subject, before, after
