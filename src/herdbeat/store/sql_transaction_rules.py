"""The part of the transaction that is about rules."""

import json
from collections.abc import Sequence
from datetime import datetime

from herdbeat.domain.rule_state import RuleState, RuleStep
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros


class SqlRules:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def rule_states(self, schedule_id: int) -> dict[str, RuleState]:
        return {
            rule: RuleState(
                matches=matches, is_active=bool(active), fired_at=None if fired_at is None else from_micros(fired_at)
            )
            for rule, matches, active, fired_at in self._connection.query("states_of_rules", schedule=schedule_id)
        }

    def rule_replace_states(
        self, schedule_id: int, run_id: int, entries: Sequence[tuple[RuleState, RuleStep]], now: datetime
    ) -> None:
        self._connection.execute("drop_rule_states", schedule=schedule_id)
        rows = [
            (
                step.rule,
                state.matches,
                int(state.is_active),
                None if state.fired_at is None else to_micros(state.fired_at),
                str(step.outcome),
                dump_sanitized({path: _to_plain(value) for path, value in step.reads.items()}),
                step.error,
            )
            for state, step in entries
        ]
        self._connection.execute_many("add_rule_states", rows, schedule=schedule_id, run=run_id, now=to_micros(now))

    def schedule_find(self, target: str, name: str) -> int | None:
        found = [(number, each) for number, each in self._connection.query("schedules_of_target", target=target)]
        named = [number for number, each in found if each == name]
        if named or name or not found:
            return named[0] if named else None
        defaults = [number for number, each in found if each == "default"]
        return defaults[0] if defaults else found[0][0] if len(found) == 1 else None

    def beat_payload(self, beat_id: int) -> dict[str, object]:
        row = self._connection.query_one("payload_of_beat", id=beat_id)
        data = json.loads(row[0]) if row is not None and row[0] else {}
        return data if isinstance(data, dict) else {}


def _to_plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
