"""The JSON of every query result. CLI (`--json`), REST and MCP share these functions, so their answers cannot differ.

Output only: nothing reads these objects back. Each takes the frozen value that a query returns. The values are imported
for their types alone, because `list` must not load what `explain` needs.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from herdbeat.domain.decision import step_to_json
from herdbeat.domain.ids import format_short_id
from herdbeat.durations import format_duration
from herdbeat.service.queries.schedule_state import is_enabled, is_fired
from herdbeat.timestamps import format_optional_timestamp, format_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from zoneinfo import ZoneInfo

    from herdbeat.config.imports.document import FleetDocument
    from herdbeat.config.provenance import ResolvedValue
    from herdbeat.domain.account_hold import AccountHold
    from herdbeat.domain.agent_records import AgentRunRecord, AttentionRecord
    from herdbeat.domain.agent_run import TokenUsage
    from herdbeat.domain.change import Change
    from herdbeat.domain.manual_request import ManualRequest
    from herdbeat.domain.notification import Episode
    from herdbeat.domain.outbox import DeliveryRecord
    from herdbeat.domain.planned_pause import PauseWindow, PlannedPause
    from herdbeat.domain.planner import PlannerSession
    from herdbeat.domain.records import BeatRecord, RunRecord, ScheduleRecord, TargetRecord, TimelineSpan
    from herdbeat.domain.rule_state import RuleStep
    from herdbeat.domain.token import TokenRecord
    from herdbeat.domain.work_claim import WorkClaimView
    from herdbeat.domain.work_item import WorkItem
    from herdbeat.domain.workspace import RemoteBranch, Workspace
    from herdbeat.errors import SourceLocation
    from herdbeat.service.agent_trial import AgentTrial
    from herdbeat.service.commands.base import ScheduleChanges
    from herdbeat.service.commands.dispatch import Delivery
    from herdbeat.service.queries.agents import CostLine, CostReport, SessionView
    from herdbeat.service.queries.details import DetailView, RunView, ScheduleView, TargetView
    from herdbeat.service.queries.explain import Explanation
    from herdbeat.service.queries.expressions import UpcomingRun, UpcomingView
    from herdbeat.service.queries.gates import GateStatus
    from herdbeat.service.queries.hints import HintView
    from herdbeat.service.queries.logs import LogEntry
    from herdbeat.service.queries.nodes import NodeView
    from herdbeat.service.queries.replay import LedgerReplay
    from herdbeat.service.queries.rules import RuleTest, ScheduleRules
    from herdbeat.service.queries.schedules import ScheduleSummary
    from herdbeat.service.queries.selectors import FoundCount
    from herdbeat.service.queries.stats import ScheduleStats
    from herdbeat.service.queries.status import FleetStatus
    from herdbeat.service.queries.timeline import Timeline
    from herdbeat.service.queries.work import WorkItemView
    from herdbeat.service.work_offers import SourceOffer

JsonObject = dict[str, object]


def serialize_page(items: list[JsonObject], next_cursor: str | None, count: "FoundCount | None" = None) -> JsonObject:
    counted: JsonObject = {} if count is None else {"count": count.number, "count_is_exact": count.is_exact}
    return {"items": items, "next_cursor": next_cursor, "has_more": next_cursor is not None, **counted}


def _seconds(length: timedelta | None) -> float | None:
    """Return a duration for programs, beside the text for people."""
    return None if length is None else length.total_seconds()


def serialize_beat(beat: "BeatRecord") -> JsonObject:
    return {
        "id": format_short_id(beat.id),
        **_pick(beat, "schedule", "due_at", "last_due_at", "count", "outcome", "result", "reason", "source", "origin"),
        "dedup_id": beat.dedup_id,
        "runs": [format_short_id(run) for run in beat.runs],
    }


def serialize_run(run: "RunRecord") -> JsonObject:
    return {
        "id": format_short_id(run.id),
        **_pick(run, "schedule", "status", "attempt"),
        "started_at": format_timestamp(run.began_at),
        **_pick(run, "finished_at", "code", "error", "summary", "note", "source", "origin", "due_at", "dedup_id"),
        "beat": format_short_id(run.beat_id),
        **(_serialize_report(run) if run.is_agent else {}),
    }


def _serialize_report(run: "RunRecord") -> JsonObject:
    """What only the run of an agent has. `spend_source` says where its dollars come from."""
    return {
        "error_code": run.error_code or None,
        "quiet": bool(run.quiet),
        "empty_answer": bool(run.empty_answer),
        "needs_you": list(run.open_needs),
        "session_id": run.session or None,
        "branch": run.branch or None,
        "usage": {**run.usage, "spend_source": run.spend_source, "notional": bool(run.is_notional)},
    }


def serialize_schedule(record: "ScheduleRecord", state: str) -> JsonObject:
    """One schedule. Field by field, without `_pick`: a list has up to 200 of them, and is asked for most."""
    trigger, policies = record.plan.trigger, record.plan.policies
    starts_at = format_optional_timestamp(record.next_run_at)
    return {
        "schedule": record.label,
        "target": record.target,
        "name": record.name,
        "state": state,
        "trigger": {"kind": trigger.kind, **trigger.options()},
        "when": trigger.describe(),
        "interval_s": _seconds(trigger.interval),
        "timezone": policies.zone.key,
        "tags": list(policies.tags),
        "group": policies.group,
        "enabled": is_enabled(record) and not is_fired(record, state),
        "disabled_by": record.disabled_by,
        "paused": record.paused,
        "paused_until": format_optional_timestamp(record.paused_until),
        "paused_by": record.paused_by,
        "paused_reason": record.paused_reason,
        "quarantine": record.quarantine,
        "next_run_at": starts_at,
        "due_at": format_optional_timestamp(record.next_due_at),
        "starts_at": starts_at,
        "source": record.next_source,
        "origin": record.next_origin,
        "last_started_at": format_optional_timestamp(record.last_started_at),
        "last_run_at": format_optional_timestamp(record.last_run_at),
        "last_status": record.last_status,
        "last_error": record.last_error,
        "failures": record.failures,
        "running": record.running,
        "waiting": record.waiting,
        "retry": _serialize_retry(record),
        "planned_pauses": [serialize_window(each) for each in record.windows],
        "written_at": record.origin,
    }


def serialize_window(window: "PauseWindow") -> JsonObject:
    """A planned pause of one schedule."""
    times = {"from": format_timestamp(window.from_at), "until": format_timestamp(window.until)}
    return {"id": window.id, **times, **_pick(window, "by", "reason")}


def _serialize_retry(record: "ScheduleRecord") -> JsonObject | None:
    """The next attempt at a beat that failed; without `at` it waits for room."""
    if record.retry_attempt is None:
        return None
    attempts = record.plan.policies.retry.attempts
    return {"attempt": record.retry_attempt, "attempts": attempts, "at": format_optional_timestamp(record.retry_at)}


def serialize_summary(summary: "ScheduleSummary") -> JsonObject:
    """A schedule in a list: with the interval hint in effect and its recent beats."""
    pace, every = None, summary.hinted_pace
    if every is not None:
        pace = {
            "every": format_duration(every),
            "every_s": _seconds(every),
            **_pick(summary.hint, "origin", "reason"),
        }
    recent = [{"beat": format_short_id(mark.beat), **_pick(mark, "outcome", "status")} for mark in summary.strip]
    hold = None if summary.account_hold is None else serialize_account_hold(summary.account_hold)
    return {**serialize_schedule(summary.record, summary.state), "pace": pace, "recent": recent, "account_hold": hold}


def serialize_details(view: "DetailView") -> JsonObject:
    """Everything about one target, schedule, run or beat."""
    from herdbeat.service.queries import details  # noqa: PLC0415 -- loaded already by the query that built the view

    match view:
        case details.TargetView():
            return serialize_target_view(view)
        case details.ScheduleView():
            return _serialize_schedule_view(view)
        case details.RunView():
            return _serialize_run_view(view)
        case details.BeatView():
            return {
                **serialize_beat(view.beat),
                "runs": [serialize_run(each) for each in view.runs],
                "request": _serialize_request(view.request),
            }


def serialize_target(target: "TargetRecord") -> JsonObject:
    """A target in a list."""
    return {
        "target": target.name,
        **_pick(target, "kind", "max_concurrent", "running", "schedules"),
        "written_at": target.origin,
    }


def serialize_target_view(view: "TargetView") -> JsonObject:
    return {
        "target": view.target.name,
        **_pick(view.target, "kind", "max_concurrent"),
        "running": view.running,
        "budget": view.budget or None,
        "written_at": view.written_at,
        "schedules": [serialize_schedule(each.record, each.state) for each in view.schedules],
    }


def _serialize_schedule_view(view: "ScheduleView") -> JsonObject:
    return {
        **serialize_schedule(view.summary.record, view.summary.state),
        "kind": view.target.kind,
        "prompt": view.brief.prompt,
        "next": [format_timestamp(each) for each in view.instants],
        "hints": [serialize_hint(each) for each in view.hints],
        "policies": {each.key: {"value": each.text, "default": each.is_default} for each in view.policies},
        "runs": [serialize_run(each) for each in view.runs],
    }


def _serialize_run_view(view: "RunView") -> JsonObject:
    details = view.details
    return {
        **serialize_run(view.run),
        "node": _pick(details, "host", "pid", "version"),
        "executor": {"kind": details.executor, **_pick(details, "place", "job")},
        "response": details.response,
        "usage": {**details.usage, **(_serialize_spend_origin(view.run) if view.agent is not None else {})},
        "session": details.session,
        "item": None if view.item is None else serialize_work_claim(view.item),
        "hooks": [serialize_message(each) for each in view.hooks],
        "attempts": [serialize_run(each) for each in view.attempts],
        "beat_outcome": view.beat.outcome,
        "request": _serialize_request(view.request),
        **({} if view.agent is None else _serialize_agent_run(view.agent)),
    }


def _serialize_request(request: "ManualRequest | None") -> JsonObject | None:
    """What was given with a run by hand."""
    if request is None:
        return None
    given = None
    if request.has_input:
        import json  # noqa: PLC0415 -- `next @daily` needs none

        given = json.loads(request.input)
    return {"prompt": request.prompt or None, "input": given, "reason": request.reason or None}


def _serialize_spend_origin(run: "RunRecord") -> JsonObject:
    return {"spend_source": run.spend_source, "notional": bool(run.is_notional)}


def _serialize_agent_run(agent: "AgentRunRecord") -> JsonObject:
    return {
        **_pick(agent, "answer", "model", "account", "turns", "prompt", "steps_left_out"),
        "steps": [_pick(step, *_STEP_FIELDS) for step in agent.steps],
    }


def serialize_answer(run: str, agent: "AgentRunRecord") -> JsonObject:
    return {"run": run, **_pick(agent, "answer", "model"), "quiet": agent.quiet, "empty_answer": agent.empty_answer}


def serialize_steps(agent: "AgentRunRecord") -> JsonObject:
    """The calls of tools; `left_out` counts those in the middle of a long run that are not kept."""
    return {"items": [_pick(step, *_STEP_FIELDS) for step in agent.steps], "left_out": agent.steps_left_out}


_STEP_FIELDS = ("name", "detail", "started_at", "ended_at", "ok", "is_subagent")


def serialize_costs(report: "CostReport") -> JsonObject:
    return {
        **_pick(report, "since", "by"),
        "items": [_serialize_cost_line(report.by, line) for line in report.lines],
        "total": _serialize_cost_line("", report.total),
    }


def _serialize_cost_line(by: str, line: "CostLine") -> JsonObject:
    return {
        **({by: line.subject} if by else {}),
        **_pick(line, "runs", "usd"),
        **_serialize_tokens(line.usage),
        "sources": list(line.sources),
        "unknown_runs": line.unknown_runs,
        "notional": line.is_notional,
    }


def _serialize_tokens(usage: "TokenUsage | None") -> JsonObject:
    if usage is None:
        return {"tokens": None}
    return {
        "tokens": usage.total,
        **_pick(usage, "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"),
    }


def serialize_sessions(sessions: "Iterable[SessionView]") -> JsonObject:
    return {"items": [_serialize_session(each) for each in sessions]}


def _serialize_session(view: "SessionView") -> JsonObject:
    session = view.record
    return {
        **_pick(session, "schedule", "runtime", "session_id", "host", "created_at", "last_used_at", "runs", "usd"),
        **_serialize_tokens(session.usage),
        "in_use_by": None if session.in_use_by is None else format_short_id(session.in_use_by),
        "open": view.open_command,
    }


def serialize_attention(mark: "AttentionRecord") -> JsonObject:
    return {"run": format_short_id(mark.run_id), **_pick(mark, "schedule", "what", "at")}


def serialize_account_hold(hold: "AccountHold") -> JsonObject:
    """`stated` says whether the CLI has named the end."""
    return {
        "account": hold.account,
        "model": hold.model or None,
        **_pick(hold, "began_at", "until", "stated"),
        "run": format_short_id(hold.run_id),
        "text": hold.text,
    }


def serialize_episode(episode: "Episode") -> JsonObject:
    """A condition of a subject, as one channel reports it."""
    moments = ("opened_at", "ended_at", "told_at", "end_told_at", "snoozed_until")
    return {
        **_pick(episode, "id", "channel", "condition", "subject", "detail"),
        "since": format_timestamp(episode.began_at),
        **{name: None if (at := getattr(episode, name)) is None else format_timestamp(at) for name in moments},
        "acked_by": episode.acked_by or None,
    }


def serialize_planned_pause(planned: "PlannedPause", now: datetime) -> JsonObject:
    """A planned pause. `state` is planned, active, over or cancelled."""
    selection = planned.selection
    state = "cancelled" if planned.ended_at else "over" if planned.is_over(now) else "planned"
    return {
        "id": planned.id,
        "state": "active" if planned.is_active(now) else state,
        "selection": selection.describe(),
        "names": list(selection.names),
        "tags": list(selection.tags),
        "groups": list(selection.groups),
        "all": selection.everything,
        "from": format_timestamp(planned.from_at),
        "until": format_timestamp(planned.until),
        **_pick(planned, "by", "reason", "schedules"),
        "created_at": format_timestamp(planned.created_at),
        "ended_at": None if planned.ended_at is None else format_timestamp(planned.ended_at),
        "ended_by": planned.ended_by or None,
    }


def serialize_message(delivery: "DeliveryRecord") -> JsonObject:
    """A message of a hook or a notification. Its content and the address of its receiver stay in the ledger."""
    return {
        "id": delivery.message_id,
        **_pick(delivery, "channel", "kind", "name", "state", "attempts"),
        "type": delivery.spec.get("type"),
        "created_at": format_timestamp(delivery.created_at),
        "next_at": format_timestamp(delivery.next_at) if delivery.state == "pending" and delivery.attempts else None,
        "ended_at": None if delivery.ended_at is None else format_timestamp(delivery.ended_at),
        "error": delivery.error or None,
    }


def serialize_work(items: "Iterable[WorkItemView]", offers: "Iterable[SourceOffer]" = ()) -> JsonObject:
    """Return what `herdbeat work` shows; with `offers`, also what the sources offer, and those that do not answer."""
    shown = list(offers)
    asked = [each for each in shown if not each.error]
    failed = [each for each in shown if each.error]
    more = {
        "offered": [_serialize_offered(offer, item) for offer in asked for item in offer.items],
        "problems": [{"schedules": list(each.schedules), "error": each.error, "hint": each.hint} for each in failed],
    }
    return {"items": [_serialize_work_item(each) for each in items], **(more if shown else {})}


def _serialize_work_item(item: "WorkItemView") -> JsonObject:
    earlier = [
        {"run": format_short_id(each.claim.run_id), "run_status": each.run_status or None}
        | _pick(each.claim, "attempt", "state", "claimed_at", "ended_at", "reason")
        for each in item.earlier
    ]
    return {**serialize_work_claim(item.view), "earlier_attempts": earlier, "is_stranded": item.is_stranded}


def _serialize_offered(offer: "SourceOffer", item: "WorkItem") -> JsonObject:
    labels = {"labels": list(item.labels)}
    return {
        "item": item.id,
        "source": offer.key,
        "schedules": list(offer.schedules),
        **_pick(item, "title", "url", "priority"),
    } | labels


def serialize_work_claim(view: "WorkClaimView") -> JsonObject:
    claim = view.claim
    return {
        **_pick(claim, "item", "title", "url", "source", "state"),
        "target": view.target,
        "schedule": view.label,
        "run": format_short_id(claim.run_id),
        "run_status": view.run_status or None,
        **_pick(claim, "attempt", "max_attempts", "claimed_at", "offered_at", "ended_at", "reason", "tries"),
        "next_try_at": format_timestamp(claim.next_at) if claim.next_at and claim.tries else None,
        "host": claim.host,
    }


def serialize_replay(replay: "LedgerReplay") -> JsonObject:
    counts = {name: getattr(replay, name) for name in ("schedules", "decisions", "same", "edited", "unknown")}
    items = [
        {
            "schedule": each.schedule,
            "beat": None if each.beat_id is None else format_short_id(each.beat_id),
            "stored": each.stored,
            "replayed": each.replayed,
        }
        for each in replay.differences
    ]
    return {**counts, "different": replay.different, "items": items}


def serialize_planner_session(session: "PlannerSession") -> JsonObject:
    return {
        **_pick(
            session, "id", "group", "model", "status", "started_at", "finished_at", "next_at", "reasoning", "error"
        ),
        "warnings": list(session.warnings),
        "actions": [
            {
                **_pick(each, "kind", "schedule", "reason", "at", "outcome"),
                "every_s": each.every_s,
                "for_s": each.lasts_s,
            }
            for each in session.actions
        ],
        "calls": [
            {"tool": each.tool, "arguments": dict(each.arguments), "answer": each.answer, "ok": each.ok}
            for each in session.calls
        ],
        "usage": {"input_tokens": session.input_tokens, "output_tokens": session.output_tokens, "usd": session.usd},
    }


def serialize_hint(view: "HintView") -> JsonObject:
    hint = view.record
    return {
        "id": hint.id,
        "schedule": hint.schedule,
        "state": view.state,
        "every": None if hint.every is None else format_duration(hint.every),
        "every_s": _seconds(hint.every),
        **_pick(hint, "at", "origin", "reason", "created_at", "expires_at", "ended_at", "ended_by"),
    }


def serialize_gate(gate: "GateStatus") -> JsonObject:
    """`used` and `max`, `text` and `opens_at` only where the gate has them."""
    answer: JsonObject = {"gate": gate.gate, "ok": gate.ok}
    if gate.most is not None:
        answer |= {"used": gate.used, "max": gate.most}
    if gate.text:
        answer["text"] = gate.text
    if gate.opens_at is not None:
        answer["opens_at"] = format_timestamp(gate.opens_at)
    return answer


def serialize_rule_step(step: "RuleStep") -> JsonObject:
    """`error` says what is undecidable; `matches` and `for_runs` how far a rule is that needs several runs in a row."""
    answer: JsonObject = {"name": step.rule, "outcome": step.outcome, "reads": dict(step.reads)}
    if step.error:
        answer["error"] = step.error
    if step.for_runs > 1:
        answer |= {"matches": step.matches, "for_runs": step.for_runs}
    return answer


def serialize_rule_test(test: "RuleTest") -> JsonObject:
    result = test.backtest
    return {
        "schedule": test.schedule,
        "runs": result.runs,
        "start": None if result.start is None else format_timestamp(result.start),
        "end": None if result.end is None else format_timestamp(result.end),
        "rules": [
            {
                "name": tally.rule,
                "outcomes": {str(key): value for key, value in tally.outcomes.items()},
                "errors": dict(tally.errors),
            }
            for tally in result.rules
        ],
        "firings": [
            {"at": format_timestamp(firing.at), "rule": firing.rule, "reads": dict(firing.reads)}
            for firing in result.firings
        ],
        "firings_left_out": result.firings_left_out,
        "pace_changes": result.pace_changes,
        "flapping": result.flapping,
        "triggered": dict(result.triggered),
        "paused_s": result.paused.total_seconds(),
        "runs_per_day": {"without_rules": result.calls_per_day_before, "with_rules": result.calls_per_day_after},
        "warnings": list(test.warnings),
    }


def serialize_explanation(explanation: "Explanation") -> JsonObject:
    return {
        **_pick(explanation, "schedule", "now", "next_run_at", "source", "origin", "state", "steps"),
        "scheduler": {"running": explanation.has_live_node},
        "gates": [serialize_gate(gate) for gate in explanation.gates],
        "hints": [serialize_hint(hint) for hint in explanation.hints],
        "rules": [serialize_rule_step(step) for step in explanation.rules],
        "last": explanation.last,
        "then": [format_timestamp(each) for each in explanation.preview.instants[1:]],
        "facts": [{"about": word, "text": text} for word, text in explanation.facts],
        "fix": explanation.fix,
        "beat": None if explanation.beat is None else serialize_beat(explanation.beat),
        "run": None if explanation.run is None else serialize_run(explanation.run),
        "text": explanation.text,
    }


_HOLD_FIELDS = ("state", "until", "by", "reason")


def serialize_status(status: "FleetStatus", fleet: str) -> JsonObject:
    spend = status.spend_today
    return {
        "fleet": fleet,
        "now": format_timestamp(status.now),
        "scheduler": {
            "running": status.pid is not None,
            "pid": status.pid,
            "since": format_optional_timestamp(status.since),
            "nodes": len(status.live_nodes) if status.live_nodes else int(status.pid is not None),
            "behind_s": None if status.lag is None else round(status.lag.total_seconds(), 3),
        },
        "schedules": status.schedules,
        "today": None if spend is None else _pick(spend, "usd", "usd_per_day"),
        "running": [
            {
                **serialize_run(each.run),
                **({"executor": _pick(each.remote, "kind", "place", "job")} if each.remote else {}),
            }
            for each in status.running
        ],
        "cut_off": [serialize_run(each) for each in status.cut_off],
        "late": [_pick(each, "schedule", "due_at", "reason", "detail") for each in status.late],
        "failing": [
            {
                "schedule": each.label,
                "failures": each.failures,
                "error": each.quarantine or each.last_error,
                "retry": _serialize_retry(each),
            }
            for each in status.failing
        ],
        "held": [{"schedule": each.record.label, **_pick(each.hold, *_HOLD_FIELDS)} for each in status.held],
        "needs_you": [serialize_attention(each) for each in status.attention],
        "accounts": [serialize_account_hold(each) for each in status.accounts],
        "over_budget": [
            {"schedule": each.record.label, "until": format_timestamp(each.until)} for each in status.over_budget
        ],
        "next": [
            {"schedule": each.label, **_pick(each, "next_run_at"), "source": each.next_source}
            for each in status.upcoming
        ],
    }


def serialize_upcoming(view: "UpcomingView") -> JsonObject:
    """The next times of schedules or of an expression. `due_at` is the instant, `starts_at` when it starts."""
    trigger, zone = view.trigger, view.zone
    return {
        "from": format_timestamp(view.start),
        "until": format_optional_timestamp(view.until),
        "timezone": zone.key,
        "trigger": trigger and {"kind": trigger.kind, "description": trigger.describe(), **trigger.options()},
        "items": [_serialize_instant(instant, zone) for instant in view.instants],
        "idle": [
            {"schedule": entry.schedule, "standing": entry.cause, "reason": entry.reason} for entry in view.unscheduled
        ],
    }


def _serialize_instant(instant: "UpcomingRun", zone: "ZoneInfo") -> JsonObject:
    return {
        "schedule": instant.schedule or None,
        "due_at": format_timestamp(instant.due_at),
        "starts_at": format_timestamp(instant.next_run_at),
        "next_run_at": format_timestamp(instant.next_run_at),
        "local": instant.next_run_at.astimezone(zone).isoformat(),
        "source": instant.source,
        "notes": list(instant.notes),
        "steps": [step_to_json(step) for step in instant.trace],
    }


def serialize_result(delivery: "Delivery[object]") -> JsonObject:
    """The result of a command, and whether a node acts on it now."""
    from herdbeat.service.commands.base import result_to_json  # noqa: PLC0415 -- loaded already by the command

    return {**result_to_json(delivery.result), "served": delivery.has_live_node}


def serialize_delivery(delivery: "Delivery[ScheduleChanges]") -> JsonObject:
    """The outcome for each schedule of a change, how many changed, and whether a node acts on it now."""
    from herdbeat.service.commands.base import result_to_json  # noqa: PLC0415 -- loaded already by the command

    result = delivery.result
    return {**result_to_json(result), "changed": len(result.changed), "served": delivery.has_live_node}


def serialize_token(token: "TokenRecord", now: datetime) -> JsonObject:
    return {
        **_pick(token, "name", "scope"),
        "valid": token.is_valid(now),
        **_pick(token, "created_at", "created_by", "expires_at", "revoked_at", "revoked_by"),
    }


def serialize_stats(stats: "ScheduleStats") -> JsonObject:
    return {
        **_pick(stats, "schedule", "window", "since", "until", "beats", "runs", "success_rate"),
        **_pick(stats, "wait_s", "duration_s", "lateness_s", "nominal_interval_s", "effective_interval_s"),
        **_pick(stats, "cost_usd", "is_complete"),
    }


def serialize_nodes(nodes: "Iterable[NodeView]") -> JsonObject:
    return {"items": [_serialize_node(each) for each in nodes]}


def _serialize_node(view: "NodeView") -> JsonObject:
    node = view.record
    return {
        "id": format_short_id(node.id),
        **_pick(node, "host", "pid", "version"),
        "state": view.state,
        **_pick(node, "works", "labels", "running", "started_at", "seen_at", "lease_until", "stopped_at"),
    }


def serialize_workspaces(
    workspaces: "Iterable[Workspace]", now: datetime, elsewhere: "Iterable[RemoteBranch]" = ()
) -> JsonObject:
    """`elsewhere` are branches of runs on other hosts, whose workspaces only those hosts can list."""
    remote = [{"run": format_short_id(each.run_id), **_pick(each, "target", "branch", "host")} for each in elsewhere]
    return {"items": [_serialize_workspace(each, now) for each in workspaces], "elsewhere": remote}


def _serialize_workspace(workspace: "Workspace", now: datetime) -> JsonObject:
    return {
        **_pick(workspace, "path", "branch", "run", "target", "state", "changed", "host", "repository", "base"),
        **_pick(workspace, "is_clone", "created_at", "ended_at"),
        "age_s": max(0, int((now - workspace.created_at).total_seconds())),
    }


def serialize_trial(trial: "AgentTrial") -> JsonObject:
    """Return what `herdbeat agent test` found out."""
    report = trial.outcome.agent
    return {
        "target": trial.target,
        "runtime": trial.runtime,
        "program": trial.program,
        "ok": trial.ok,
        "status": trial.outcome.status.value,
        "error": trial.outcome.error or None,
        "error_code": (report.error_code or None) if report is not None else None,
        "fix": trial.fix or None,
        "answer": report.answer if report is not None else None,
        "model": (report.model or None) if report is not None else None,
        "session_id": trial.outcome.session or None,
        "usage": dict(trial.outcome.usage),
        "needs_you": list(report.needs_you) if report is not None else [],
        "notes": list(trial.notes),
        "seconds": round(trial.took.total_seconds(), 3),
    }


def serialize_change(change: "Change") -> JsonObject:
    return {
        "id": format_short_id(change.id),
        **_pick(change, "at", "who", "what", "subject"),
        "before": None if change.before is None else dict(change.before),
        "after": None if change.after is None else dict(change.after),
    }


def serialize_config(values: "Iterable[ResolvedValue]") -> JsonObject:
    return {"values": [_serialize_config_value(each) for each in values]}


def _serialize_config_value(value: "ResolvedValue") -> JsonObject:
    place = {name: getattr(value.origin, name, None) for name in ("file", "line", "column")}
    return {"path": value.path, "value": value.value, "origin": str(value.origin), **place}


def serialize_timeline(timeline: "Timeline") -> JsonObject:
    spans = [(record, span) for record in timeline.schedules for span in timeline.list_spans(record)]
    return {"items": [serialize_span(span, record.label) for record, span in spans]}


def serialize_rules(schedules: "Iterable[ScheduleRules]") -> JsonObject:
    return {"items": [_serialize_schedule_rules(each) for each in schedules]}


def _serialize_schedule_rules(schedule: "ScheduleRules") -> JsonObject:
    return {
        "schedule": schedule.label,
        "rules": [
            {"name": rule.name, "when": rule.when.text, "last": None if step is None else serialize_rule_step(step)}
            for rule, step in schedule.rules
        ],
    }


def serialize_span(span: "TimelineSpan", schedule: str) -> JsonObject:
    return {
        "schedule": schedule,
        **_pick(span, "outcome", "due_at", "last_due_at"),
        "count": span.number,
        **_pick(span, "status", "started_at", "finished_at"),
    }


def serialize_document(document: "FleetDocument", text: str, file: str | None) -> JsonObject:
    """Return an import or an export: what it wrote, or would write, and what a reader must know."""
    targets = [
        {"kind": each.kind, "name": each.name, "schedules": each.schedule_count, "from": _optional_location(each.where)}
        for each in document.targets
    ]
    notes = [
        {**_pick(note, "kind", "message", "hint"), "from": _optional_location(note.where)}
        for note in document.all_notes
    ]
    return {"file": file, "origin": document.origin, "targets": targets, "notes": notes, "yaml": text}


def _optional_location(where: "SourceLocation | None") -> JsonObject | None:
    return None if where is None else {"file": where.file, "line": where.line}


def serialize_log_entry(entry: "LogEntry") -> JsonObject:
    run = {"schedule": entry.run.schedule, "run": format_short_id(entry.run.id)}
    return {"at": format_timestamp(entry.at), **run, "stream": entry.kind, "text": entry.text}


def _pick(value: object, *names: str) -> JsonObject:
    """Return the named fields under their own names, timestamps as text and tuples as lists."""
    return {name: _to_json(getattr(value, name)) for name in names}


def _to_json(value: object) -> object:
    if isinstance(value, datetime):
        return format_timestamp(value)
    return list(value) if isinstance(value, tuple) else value
