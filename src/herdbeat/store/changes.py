"""What people and machines change: the record of it, and what only a change by hand touches."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from herdbeat.domain.change import Change, Facts
from herdbeat.domain.hint import Hint
from herdbeat.domain.schedule import label_of
from herdbeat.store.catalogue import CHUNK, SqlCatalogue
from herdbeat.store.micros import to_micros
from herdbeat.store.rows import Switch
from herdbeat.store.statements import dump_clean

_MICROSECOND = timedelta(microseconds=1)


class SqlChanges(SqlCatalogue):
    def add_changes(self, changes: Sequence[Change]) -> None:
        texts = _Texts()
        for start in range(0, len(changes), CHUNK):
            self._statements.tell("add_changes", [_row(each, texts) for each in changes[start : start + CHUNK]])

    def drop_changes(self, before: datetime, most: int, limit: int) -> int:
        return self._statements.do("drop_changes", before=to_micros(before), most=most, limit=limit)()

    def switches(self, ids: Iterable[int]) -> dict[int, Switch]:
        rows = self._statements.ask("switches", ids)
        return {
            number: Switch(label_of(target, name), bool(enabled), origin)
            for number, target, name, enabled, origin in rows
        }

    def arm_again(self, ids: Sequence[int]) -> None:
        self._statements.tell("arm_again", ids)

    def forget_failures(self, schedule_id: int) -> None:
        self._statements.do("forget_failures", id=schedule_id)

    def extend_hint(self, schedule_id: int, hint: Hint, now: datetime) -> bool:
        moved = self._statements.do(
            "extend_hint",
            id=schedule_id,
            origin=hint.origin,
            reason=hint.reason,
            every=None if hint.every is None else hint.every // _MICROSECOND,
            at=to_micros(hint.at),
            expires_at=to_micros(hint.expires_at),
            now=to_micros(now),
        )
        return moved() > 0

    def end_hints_of(self, schedule_id: int, ranks: Sequence[str], now: datetime, by: str) -> None:
        self._statements.tell("end_hints_of", ranks, id=schedule_id, now=to_micros(now), by=by)
        self._statements.do("count_hints", id=schedule_id)

    def recent_hints(self, schedule_id: int, origin: str, since: datetime) -> int:
        (found,) = self._statements.ask_one("recent_hints", id=schedule_id, origin=origin, since=to_micros(since))
        return int(found)

    def trim_hints(self, schedule_id: int, rank: str, now: datetime, *, one_shots: int, ended: int) -> None:
        self._statements.do("end_surplus_one_shots", id=schedule_id, rank=rank, most=one_shots, now=to_micros(now))
        self._statements.do("forget_ended_hints", id=schedule_id, most=ended)
        self._statements.do("count_hints", id=schedule_id)


class _Texts:
    """Facts as JSON. The first start of a large fleet says the same of thousands: that is written once."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, facts: Facts | None) -> str | None:
        if facts is None:
            return None
        if id(facts) not in self._known:
            self._known[id(facts)] = dump_clean(dict(facts))
        return self._known[id(facts)]


def _row(change: Change, texts: _Texts) -> tuple[object, ...]:
    before, after = texts.of(change.before), texts.of(change.after)
    return to_micros(change.at), change.who, change.what, change.subject, before, after
