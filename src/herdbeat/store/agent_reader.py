"""Reading what only agents have. A part of the reader of the ledger."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from herdbeat.domain.codec import from_json
from herdbeat.domain.ids import display_name
from herdbeat.timestamps import from_micros, to_micros
from herdbeat.triggers import load_trigger

if TYPE_CHECKING:
    from herdbeat.domain.account_hold import AccountHold, AccountUse
    from herdbeat.domain.agent_records import AgentRunRecord, AttentionRecord, CostRecord, SessionRecord
    from herdbeat.domain.agent_run import AgentStep, RunSpend, TokenUsage
    from herdbeat.domain.workspace import RemoteBranch


class AgentReader(ABC):
    """The base of `Reader`, which knows how to query."""

    @abstractmethod
    def _query(self, statement: str, **values: object) -> list[Any]: ...

    def agent_run(self, run_id: int) -> "AgentRunRecord | None":
        """Return what is kept of an agent's run; None for a run of something else, or one that reported nothing."""
        return next((_read_agent_run(row) for row in self._query("agent_run", id=run_id)), None)

    def branches_elsewhere(self, host: str, limit: int) -> "list[RemoteBranch]":
        """Return the branches that runs have left on other hosts than this one, newest first."""

        from herdbeat.domain.workspace import RemoteBranch  # noqa: PLC0415 - few commands need it

        rows = self._query("branches_elsewhere", host=host, limit=limit)
        return [RemoteBranch(run_id=run, target=target, branch=branch, host=at) for run, target, branch, at in rows]

    def run_spend(self, run_id: int) -> "RunSpend | None":
        """Return what a run was charged; None if it was charged nothing at all."""
        return next((_read_spend(row) for row in self._query("cost_of_run", id=run_id)), None)

    def attention_of(self, run_id: int) -> "AttentionRecord | None":
        return next((_read_attention(row) for row in self._query("attention_of_run", id=run_id)), None)

    def open_attention(self, limit: int) -> "list[AttentionRecord]":
        """Return what was not acknowledged, newest first."""
        return [_read_attention(row) for row in self._query("open_attention", limit=limit)]

    def sessions(self, target: str | None, name: str | None, limit: int) -> "list[SessionRecord]":
        """Return sessions, the last used first."""
        return [_read_session(row) for row in self._query("list_sessions", target=target, name=name, limit=limit)]

    def costs(self, since: str, target: str | None = None, name: str | None = None) -> "list[CostRecord]":
        """Return the costs of the days from that one on, the newest day first."""
        return [_read_cost(row) for row in self._query("cost_lines", day=since, target=target, name=name)]

    def holds(self, now: datetime) -> "list[AccountHold]":
        """Return the accounts that are held, the first to open first."""
        return [read_hold(row) for row in self._query("list_holds", now=to_micros(now))]

    def account_uses(self) -> "dict[int, AccountUse]":
        """Return which account and model the runs of each schedule of an agent use, as far as that is known."""

        from herdbeat.domain.account_hold import AccountUse  # noqa: PLC0415 - few commands need it

        rows = self._query("schedules_with_account")
        return {number: AccountUse(account, model) for number, account, model in rows if account}


def read_tokens(columns: Sequence[int | None]) -> "TokenUsage | None":
    """Read the four token columns. All of them are NULL where the usage is unknown."""
    fresh, read, written, output = columns
    if fresh is None and output is None:
        return None
    from herdbeat.domain.agent_run import TokenUsage  # noqa: PLC0415 - few commands need it

    return TokenUsage(
        input_tokens=fresh or 0,
        cache_read_tokens=read or 0,
        cache_write_tokens=written or 0,
        output_tokens=output or 0,
    )


def read_hold(row: Sequence[Any]) -> "AccountHold":
    from herdbeat.domain.account_hold import AccountHold  # noqa: PLC0415 - few commands need it

    number, account, model, began_at, until, stated, streak, run_id, text, released_at, released_by = row
    return AccountHold(
        id=number,
        account=account,
        model=model,
        began_at=from_micros(began_at),
        until=from_micros(until),
        stated=bool(stated),
        streak=streak,
        run_id=run_id,
        text=text,
        released_at=from_micros(released_at),
        released_by=released_by,
    )


def _read_agent_run(row: Sequence[Any]) -> "AgentRunRecord":
    from herdbeat.domain.agent_records import AgentRunRecord  # noqa: PLC0415 - few commands need it

    error_code, account, model, answer, quiet, empty_answer, turns, steps, steps_left_out, prompt, branch = row
    return AgentRunRecord(
        error_code=error_code,
        account=account,
        model=model,
        answer=answer,
        quiet=bool(quiet),
        empty_answer=bool(empty_answer),
        turns=turns,
        steps=tuple(read_steps(json.loads(steps))),
        steps_left_out=steps_left_out,
        prompt=prompt,
        branch=branch,
    )


def read_steps(steps: Iterable[object]) -> "Iterable[AgentStep]":
    from herdbeat.domain.agent_run import AgentStep  # noqa: PLC0415 - few commands need it

    return (from_json(AgentStep, step, load_trigger) for step in steps)


def _read_spend(row: Sequence[Any]) -> "RunSpend":
    from herdbeat.domain.agent_run import RunSpend, SpendSource  # noqa: PLC0415 - few commands need it

    source, usd, *tokens, notional = row
    return RunSpend(usd=usd, source=SpendSource(source), usage=read_tokens(tokens), is_notional=bool(notional))


def _read_attention(row: Sequence[Any]) -> "AttentionRecord":
    from herdbeat.domain.agent_records import AttentionRecord  # noqa: PLC0415 - few commands need it

    run_id, target, name, what, at, acked_by, acked_at = row
    return AttentionRecord(
        run_id=run_id,
        schedule=display_name(target, name),
        what=tuple(json.loads(what)),
        at=from_micros(at),
        acked_by=acked_by,
        acked_at=from_micros(acked_at),
    )


def _read_session(row: Sequence[Any]) -> "SessionRecord":
    from herdbeat.domain.agent_records import SessionRecord  # noqa: PLC0415 - few commands need it

    runtime, session_id, target, name, host, created_at, last_used_at, runs, usd, *tokens, in_use_by = row
    return SessionRecord(
        runtime=runtime,
        session_id=session_id,
        schedule=display_name(target, name),
        host=host,
        created_at=from_micros(created_at),
        last_used_at=from_micros(last_used_at),
        runs=runs,
        usd=usd,
        usage=read_tokens(tokens),
        in_use_by=in_use_by,
    )


def _read_cost(row: Sequence[Any]) -> "CostRecord":
    from herdbeat.domain.agent_records import CostRecord  # noqa: PLC0415 - few commands need it
    from herdbeat.domain.agent_run import SpendSource  # noqa: PLC0415

    day, target, name, source, notional, runs, usd, *tokens = row
    return CostRecord(
        day=day,
        schedule=display_name(target, name),
        target=target,
        source=SpendSource(source),
        is_notional=bool(notional),
        runs=runs,
        usd=usd,
        usage=read_tokens(tokens),
    )
