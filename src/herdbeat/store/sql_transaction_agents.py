"""The part of the SQL transaction for agents: answers, costs, sessions, holds of accounts, marks for people, the tools
that agents call, and the work items that they claim.

Only completions of agents and claims during a hold come here, so a fleet without agents pays for none of it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from herdbeat.domain.account_hold import AccountHold, AccountUse
from herdbeat.domain.agent_run import AgentStep, ModelPrice, SessionTotals, TokenUsage
from herdbeat.domain.agent_tools import AgentHint, RunReport
from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.hint import Hint
from herdbeat.domain.ids import display_name
from herdbeat.domain.run_status import RunStatus
from herdbeat.domain.work_claim import NewWorkClaim, WorkClaimRecord
from herdbeat.domain.work_item import WorkItem
from herdbeat.store.agent_reader import read_hold, read_tokens
from herdbeat.store.agent_tools_reader import dump_report, read_agent_hint, read_report
from herdbeat.store.record_mapping import read_work_claim
from herdbeat.store.row_mapping import read_hint
from herdbeat.store.rows import (
    AgentRunRow,
    AttentionClearing,
    AttentionMark,
    BeatRun,
    RunCostRow,
    SessionKey,
    SessionRow,
)
from herdbeat.store.sanitize import dump_sanitized
from herdbeat.store.statements import Connection
from herdbeat.timestamps import from_micros, to_micros
from herdbeat.triggers import load_trigger

MAX_ANSWER_BYTES = 64 * 1024
MAX_PROMPT_BYTES = 256 * 1024
_MAX_TOKENS = 10**15


class SqlAgents:
    """The base of `SqlAdministration`."""

    _connection: Connection

    # ── runs and their cost ──

    def agent_run_add_many(self, rows: Sequence[AgentRunRow]) -> None:
        self._connection.execute_many("add_agent_runs", [_agent_run_columns(row) for row in rows])

    def cost_add_many(self, rows: Sequence[RunCostRow]) -> None:
        self._connection.execute_many("add_costs", [_cost_columns(row) for row in rows])

    def beat_count_limited(self, beat_ids: Sequence[int]) -> None:
        self._connection.execute_many("count_limited", beat_ids)

    def schedule_set_not_before(self, not_before: Mapping[int, datetime | None]) -> None:
        self._connection.execute_many(
            "set_not_before", [(number, to_micros(until)) for number, until in not_before.items()]
        )

    def prices(self) -> dict[str, ModelPrice]:
        row = self._connection.query_one("prices")
        stored = json.loads(row[0]) if row is not None else {}
        return {model: from_json(ModelPrice, price, load_trigger) for model, price in stored.items()}

    def set_prices(self, prices: Mapping[str, ModelPrice]) -> None:
        if prices != self.prices():
            stored = {model: to_json(price) for model, price in prices.items()}
            self._connection.execute("set_prices", prices=dump_sanitized(stored))

    # ── sessions ──

    def session_get_totals(self, keys: Iterable[SessionKey]) -> dict[SessionKey, SessionTotals]:
        rows = self._connection.query("session_totals", keys)
        return {
            SessionKey(runtime, session): SessionTotals(usage=read_tokens(tokens), usd=usd)
            for runtime, session, usd, *tokens in rows
        }

    def session_keep_many(self, rows: Sequence[SessionRow], now: datetime) -> None:
        columns = [
            (*row.key, row.schedule_id, row.run_id, row.totals.usd, *_token_columns(row.totals.usage)) for row in rows
        ]
        self._connection.execute_many("keep_sessions", columns, now=to_micros(now))

    def session_take(
        self, schedule_id: int, runtime: str, *, host: str, run_id: int, used_since: datetime, thread: str = ""
    ) -> str | None:
        row = self._connection.query_one(
            "newest_session",
            schedule=schedule_id,
            runtime=runtime,
            host=host,
            since=to_micros(used_since),
            thread=thread,
            thread_end=f"{thread[:-1]};" if thread else "",  # the character after the colon
        )
        if row is None:
            return None
        self._connection.execute("take_session", run=run_id, runtime=runtime, session=row[0])
        return str(row[0])

    # ── accounts ──

    def account_get_many(self, schedule_ids: Iterable[int]) -> dict[int, AccountUse]:
        rows = self._connection.query("accounts_of", schedule_ids)
        return {number: AccountUse(account, model) for number, account, model in rows if account}

    def account_list_missing(self) -> dict[int, str]:
        return dict(self._connection.query("agents_without_account"))

    def account_set_many(self, accounts: Mapping[int, str]) -> None:
        self._connection.execute_many("set_accounts", sorted(accounts.items()))

    def hold_list_open(self) -> list[AccountHold]:
        return [read_hold(row) for row in self._connection.query("open_holds")]

    def hold_get_last(self, account: str, model: str) -> AccountHold | None:
        self._connection.query("lock_account_holds")
        row = self._connection.query_one("last_hold", account=account, model=model)
        return None if row is None else read_hold(row)

    def hold_add(self, hold: AccountHold) -> None:
        self._connection.execute(
            "add_hold",
            account=hold.account,
            model=hold.model,
            began_at=to_micros(hold.began_at),
            until=to_micros(hold.until),
            stated=int(hold.stated),
            streak=hold.streak,
            run=hold.run_id,
            text=hold.text,
        )

    def hold_move(self, hold_id: int, until: datetime, *, stated: bool) -> None:
        self._connection.execute("move_hold", id=hold_id, until=to_micros(until), stated=int(stated))

    def hold_end_many(self, ids: Sequence[int], now: datetime) -> None:
        self._connection.execute_many("end_holds", ids, now=to_micros(now))

    def hold_release(self, account: str, *, by: str, now: datetime) -> int:
        # The beats first: a claim has them locked before it ends a hold, and two that wait for each other never end.
        self._connection.execute("wake_rate_limited", now=to_micros(now))
        return self._connection.execute("release_holds", account=account, by=by, now=to_micros(now))()

    def hold_end_streaks(self, successes: Sequence[tuple[str, datetime]]) -> None:
        rows = [(account, to_micros(started_at)) for account, started_at in successes]
        self._connection.execute_many("end_streaks", rows)

    # ── attention ──

    def attention_add_many(self, marks: Sequence[AttentionMark], now: datetime) -> None:
        rows = [(mark.run_id, mark.schedule_id, dump_sanitized(list(mark.what))) for mark in marks]
        self._connection.execute_many("add_attention", rows, now=to_micros(now))

    def attention_clear_many(self, successes: Sequence[AttentionClearing], now: datetime) -> None:
        rows = [(each.run_id, each.schedule_id, to_micros(each.started_at), int(each.scope)) for each in successes]
        self._connection.execute_many("clear_attention", rows, now=to_micros(now))

    def attention_list_open(self, run_ids: Iterable[int]) -> dict[int, str]:
        rows = self._connection.query("unacked_runs", run_ids)
        return {run_id: display_name(target, name) for run_id, target, name in rows}

    def attention_ack(self, run_ids: Sequence[int], *, by: str, now: datetime) -> int:
        return self._connection.execute_many("ack_runs", run_ids, by=by, now=to_micros(now))()

    # ── retention ──

    def drop_sessions(self, before: datetime) -> int:
        return self._connection.execute("drop_sessions", before=to_micros(before))()

    def drop_holds(self, before: datetime) -> int:
        return self._connection.execute("drop_holds", before=to_micros(before))()

    def _drop_agent_runs(self, run_ids: Sequence[int]) -> None:
        for statement in ("drop_agent_runs", "drop_costs", "drop_attention"):
            self._connection.execute_many(statement, run_ids)


def truncate_bytes(text: str, limit: int) -> str:
    """Return as much of a text as fits into so many bytes of UTF-8, in whole characters."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def _agent_run_columns(row: AgentRunRow) -> tuple[object, ...]:
    report = row.report
    return (
        row.run_id,
        report.error_code,
        report.account,
        report.model,
        truncate_bytes(report.answer, MAX_ANSWER_BYTES),
        int(report.quiet),
        int(report.empty_answer),
        report.turns,
        _dump_steps(report.steps),
        report.steps_left_out,
        truncate_bytes(report.prompt, MAX_PROMPT_BYTES),
        row.branch,
    )


def _dump_steps(steps: Sequence[AgentStep]) -> str:
    return dump_sanitized(to_json(list(steps)))


def _cost_columns(row: RunCostRow) -> tuple[object, ...]:
    spend = row.spend
    cost = spend.source, spend.usd, *_token_columns(spend.usage), int(spend.is_notional)
    return row.run_id, row.schedule_id, row.target_id, row.day, *cost


def _token_columns(usage: TokenUsage | None) -> tuple[int | None, ...]:
    if usage is None:
        return None, None, None, None
    counts = usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens
    return tuple(min(max(0, count), _MAX_TOKENS) for count in counts)


AGENT_HINT_KEPT = timedelta(days=40)
"""Longer than any hint lives."""

RUN_REPORT_KEPT = timedelta(days=8)
"""Longer than any run takes. The completion of a run has taken its report over long before."""


class SqlAgentTools:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def agent_hints(self, schedule_id: int, now: datetime) -> list[AgentHint]:
        rows = self._connection.query("list_agent_hints", schedule=schedule_id, now=to_micros(now))
        return [read_agent_hint(row) for row in rows]

    def agent_hint_add(
        self, schedule_id: int, origin: str, *, run_id: int, is_wake: bool, request: str, note: str, now: datetime
    ) -> int:
        (hint_id,) = self._connection.query_one("newest_hint", schedule=schedule_id, origin=origin)
        self._connection.execute(
            "add_agent_hint",
            hint=hint_id,
            schedule=schedule_id,
            run=run_id,
            is_wake=int(is_wake),
            request=request,
            note=note,
            now=to_micros(now),
        )
        self._connection.execute("drop_agent_hints", schedule=schedule_id, before=to_micros(now - AGENT_HINT_KEPT))
        return int(hint_id)

    def agent_hint_count_wakes(self, schedule_id: int, since: datetime) -> int:
        (count,) = self._connection.query_one("count_wakes", schedule=schedule_id, since=to_micros(since))
        return int(count)

    def hint_end(self, schedule_id: int, hint_id: int, now: datetime, by: str) -> None:
        self._connection.execute("end_hint", schedule=schedule_id, hint=hint_id, by=by, now=to_micros(now))
        self._connection.execute("count_hints", id=schedule_id)

    def hint_find(self, schedule_id: int, hint_id: int, now: datetime) -> Hint | None:
        row = self._connection.query_one("find_hint", schedule=schedule_id, hint=hint_id, now=to_micros(now))
        return None if row is None else read_hint(row)

    def run_report(self, run_id: int) -> RunReport | None:
        row = self._connection.query_one("run_report", run=run_id)
        return None if row is None else read_report(row[0])

    def wake_note(self, run_id: int) -> str:
        row = self._connection.query_one("notes_of_run", run=run_id)
        return "" if row is None else str(row[0])

    def run_report_set(self, run_id: int, report: RunReport, now: datetime) -> None:
        self._connection.execute("set_run_report", run=run_id, report=dump_report(report), now=to_micros(now))
        self._connection.execute("drop_run_reports", run=run_id, before=to_micros(now - RUN_REPORT_KEPT))

    def run_key_claim(self, value: str) -> str:
        self._connection.execute("set_run_key", value=value)
        (stored,) = self._connection.query_one("run_key")
        return str(stored)


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
            data=_dump_item(claim.kept),
            spec=dump_sanitized(dict(claim.spec)),
            host=claim.host,
            remembers=int(claim.remembers),
            items_left=claim.items_left,
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

    def work_confirm(self, claim_id: int, *, attempt: int, item: WorkItem, offered_at: datetime | None) -> bool:
        values = {"attempt": attempt, "data": _dump_item(item), "offered_at": to_micros(offered_at)}
        return self._connection.execute("confirm_work_claim", id=claim_id, **values)() > 0

    def work_get(self, ids: Iterable[int]) -> dict[int, WorkClaimRecord]:
        return {record.id: record for record in map(read_work_claim, self._connection.query("work_claims_by_id", ids))}

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
        rows = self._connection.query("runs_of_same_beats", beat_ids)
        return [
            BeatRun(beat, run, RunStatus(status), error, attempt, error_code, bool(tool_called))
            for beat, run, status, error, attempt, error_code, tool_called in rows
        ]


def _dump_item(item: WorkItem) -> str:
    """Return what is kept of an item: all but its id, which has a column, and its body, which its source has."""
    return dump_sanitized(
        {
            "title": item.title,
            "url": item.url,
            "labels": list(item.labels),
            "assignee": item.assignee,
            "priority": item.priority,
            "metadata": dict(item.metadata),
        }
    )


def _columns(claim: WorkClaimRecord, *, next_at: datetime | None) -> tuple[object, ...]:
    report = None if claim.report is None else dump_sanitized(to_json(claim.report))
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
