"""The part of the reader for rules: their inputs and their outcomes."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.ids import DEFAULT_SCHEDULE_NAME
from herdbeat.domain.run_status import RunStatus
from herdbeat.store.record_mapping import read_plan
from herdbeat.timestamps import from_micros

if TYPE_CHECKING:
    from herdbeat.domain.past_run import PastRun
    from herdbeat.domain.rule_state import RuleStep

_MAX_RUN_ID = 2**62


class RuleReader(ABC):
    """A base of `Reader`, which knows how to query."""

    @abstractmethod
    def _query(self, statement: str, **values: object) -> list[Any]: ...

    def past_runs(self, schedule_id: int, before: int = _MAX_RUN_ID, limit: int = 1) -> "list[PastRun]":
        """Return the ended runs of a schedule before that run, the newest first."""
        rows = self._query("past_runs", schedule=schedule_id, before=before, limit=limit)
        return [_read_past_run(row) for row in rows]

    def past_runs_by_run(self, run_ids: Sequence[int], limit: int) -> "dict[int, list[PastRun]]":
        """Return the same for many runs at once, by the id of each: the ended runs of its schedule before it."""
        found: dict[int, list[PastRun]] = {run_id: [] for run_id in run_ids}
        for run_id, *row in self._query("past_runs_by_run", ids=list(run_ids), limit=limit):
            found[run_id].append(_read_past_run(row))
        return found

    def sibling_runs(self, schedule_id: int, names: Sequence[str]) -> "dict[str, PastRun]":
        """Return the newest run of each of these schedules that is in the same group."""
        group = self._group_of(schedule_id)
        found = {name: self._find_sibling(name, group) for name in names} if group is not None else {}
        newest = {name: self.past_runs(number) for name, number in found.items() if number is not None}
        return {name: runs[0] for name, runs in newest.items() if runs}

    def work_items_left(self, run_id: int) -> int | None:
        """Return how many other items were offered when a run took its own; None without a work source."""
        rows = self._query("items_left", run=run_id)
        return rows[0][0] if rows else None

    def failures(self, schedule_id: int) -> int:
        """Return how often in a row a schedule has failed."""
        rows = self._query("failures_of_schedule", schedule=schedule_id)
        return int(rows[0][0]) if rows else 0

    def rule_steps(self, schedule_id: int) -> "dict[str, RuleStep]":
        """Return the outcome of each rule of a schedule after its newest run, by the name of the rule."""

        from herdbeat.domain.rule_state import RuleOutcome, RuleStep  # noqa: PLC0415 - few commands need it

        rows = self._query("rule_steps", schedule=schedule_id)
        return {
            rule: RuleStep(
                rule=rule,
                outcome=RuleOutcome(outcome),
                reads=json.loads(reads),
                error=error,
                matches=matches,
                fired_at=from_micros(fired_at),
            )
            for rule, outcome, reads, error, matches, fired_at in rows
        }

    def _group_of(self, schedule_id: int) -> str | None:
        rows = self._query("plan_of_schedule", schedule=schedule_id)
        return read_plan(rows[0][0]).policies.group if rows else None

    def _find_sibling(self, name: str, group: str) -> int | None:
        target, _, schedule = name.partition("/")
        rows = self._query("siblings_of_target", target=target)
        in_group = [(number, each) for number, each, plan in rows if read_plan(plan).policies.group == group]
        wanted = schedule or DEFAULT_SCHEDULE_NAME
        named = [number for number, each in in_group if each == wanted]
        return named[0] if named else in_group[0][0] if len(in_group) == 1 and not schedule else None


def _read_past_run(row: Sequence[Any]) -> "PastRun":
    from herdbeat.domain.past_run import PastRun  # noqa: PLC0415 - few commands need it

    number, status, code, attempt, claimed_at, started_at, finished_at, response, outcome, reason, usd, left = row
    return PastRun(
        id=number,
        status=RunStatus(status),
        code=code,
        attempt=attempt,
        started_at=from_micros(started_at if started_at is not None else claimed_at),
        finished_at=None if finished_at is None else from_micros(finished_at),
        response=None if response is None else json.loads(response),
        skip_reason=reason if outcome == BeatOutcome.SKIPPED else "",
        cost_usd=usd,
        work_items_left=left,
    )
