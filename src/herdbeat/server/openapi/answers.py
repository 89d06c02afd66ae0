"""Which object each route answers with. What a command answers comes from the type of its result."""

from typing import Any

from pydantic import TypeAdapter

from herdbeat.domain.webhook_call import EventAnswer
from herdbeat.server.openapi.schema_types import (
    BOOL,
    ID,
    TEXT,
    WHOLE,
    JsonSchema,
    array_of,
    counted_page,
    fields,
    items,
    nullable,
    one_of,
    page,
    ref,
)
from herdbeat.service.commands.base import (
    AckRuns,
    BackfillSchedule,
    CancelPause,
    CancelRuns,
    CancelSchedules,
    ChangeEpisodes,
    Command,
    CreateToken,
    DeleteSchedule,
    PauseSchedules,
    PlanPause,
    ReleaseAccount,
    ReleaseWork,
    RetryRuns,
    RevokeToken,
    SendTestMessage,
    TriggerSchedule,
    UpsertSchedule,
)

SERVED = {"served": {**BOOL, "description": "Whether a node acts on it now"}}


def build_result_schema(command: type[Command[Any]], **more: JsonSchema) -> JsonSchema:
    """Return the schema of what a command answers, with the keys that a route adds."""
    schema = _inline_definitions(TypeAdapter(command.result_type).json_schema(mode="serialization"))
    schema["properties"] = {**schema["properties"], **more}
    schema["required"] = list(schema["properties"])
    return {key: value for key, value in schema.items() if key in ("type", "properties", "required")}


def _inline_definitions(schema: JsonSchema) -> JsonSchema:
    """Return a schema without references into itself."""
    definitions = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, dict) and "$ref" in value:
            return resolve(definitions[value["$ref"].rpartition("/")[2]])
        if isinstance(value, dict):
            kept = {key: resolve(each) for key, each in value.items() if key not in ("title", "default", "description")}
            if kept.get("type") == "object" and "properties" in kept:
                kept["required"] = list(kept["properties"])
            return kept
        return [resolve(each) for each in value] if isinstance(value, list) else value

    resolved: JsonSchema = resolve(schema)
    return resolved


_CHANGES = build_result_schema(PauseSchedules, changed=WHOLE, **SERVED)
_BULK_KEYS = {"action": TEXT, "count": WHOLE, "bulk_id": TEXT}
_BULK = build_result_schema(PauseSchedules, changed=WHOLE, **_BULK_KEYS, **SERVED)
_BULK_CANCEL = build_result_schema(CancelSchedules, **_BULK_KEYS, **SERVED)
_BULK_DRY = fields(action=TEXT, count=WHOLE, sample=array_of(TEXT), dry_run=BOOL)
_UPSERTED = build_result_schema(UpsertSchedule, **SERVED)
_DELETED = build_result_schema(DeleteSchedule, **SERVED)
_TRIGGERED = build_result_schema(TriggerSchedule, run=nullable(ID), **SERVED)
_ACKED = build_result_schema(AckRuns, **SERVED)

_CALL = fields(status=one_of((EventAnswer.ACCEPTED, EventAnswer.DUPLICATE, EventAnswer.FILTERED, "ping")))

_API = "/api/v1"
_SCHEDULE = f"{_API}/schedules/{{target}}/{{name}}"
_RUN = f"{_API}/runs/{{run_id}}"

ANSWERS: dict[tuple[str, str], JsonSchema] = {
    ("get", f"{_API}/status"): ref("Status"),
    ("get", f"{_API}/next"): ref("Upcoming"),
    ("get", f"{_API}/changes"): page(ref("Change")),
    ("get", f"{_API}/nodes"): items(ref("Node")),
    ("get", f"{_API}/cost"): ref("Costs"),
    ("post", f"{_API}/preview"): ref("Upcoming"),
    ("get", f"{_API}/schedules"): counted_page(ref("ScheduleSummary")),
    ("post", f"{_API}/schedules"): _UPSERTED,
    ("get", _SCHEDULE): ref("ScheduleDetails"),
    ("patch", _SCHEDULE): _UPSERTED,
    ("delete", _SCHEDULE): _DELETED,
    ("get", f"{_SCHEDULE}/next"): ref("Upcoming"),
    ("get", f"{_SCHEDULE}/explain"): ref("Explanation"),
    ("get", f"{_SCHEDULE}/stats"): ref("Stats"),
    ("post", f"{_SCHEDULE}/runs"): _TRIGGERED,
    ("post", f"{_SCHEDULE}/backfill"): {"anyOf": [build_result_schema(BackfillSchedule, **SERVED), ref("Instants")]},
    **{("post", f"{_SCHEDULE}/{each}"): _CHANGES for each in ("pause", "resume", "enable", "disable", "skip", "reset")},
    ("get", f"{_SCHEDULE}/hints"): items(ref("Hint")),
    ("post", f"{_SCHEDULE}/hints"): _CHANGES,
    ("delete", f"{_SCHEDULE}/hints"): _CHANGES,
    ("delete", f"{_SCHEDULE}/hints/{{hint_id}}"): _CHANGES,
    ("get", f"{_API}/targets"): page(ref("Target")),
    ("post", f"{_API}/targets"): _UPSERTED,
    ("get", f"{_API}/targets/{{target}}"): ref("TargetDetails"),
    ("patch", f"{_API}/targets/{{target}}"): _UPSERTED,
    ("delete", f"{_API}/targets/{{target}}"): _DELETED,
    ("get", f"{_API}/runs"): counted_page(ref("Run")),
    ("get", _RUN): ref("RunDetails"),
    ("get", f"{_RUN}/answer"): ref("Answer"),
    ("get", f"{_RUN}/steps"): ref("Steps"),
    ("post", f"{_RUN}/ack"): _ACKED,
    ("post", f"{_RUN}/cancel"): build_result_schema(CancelRuns, **SERVED),
    ("post", f"{_RUN}/retry"): build_result_schema(RetryRuns, **SERVED),
    ("get", f"{_API}/beats"): counted_page(ref("Beat")),
    ("get", f"{_API}/beats/{{beat_id}}"): ref("BeatDetails"),
    ("get", f"{_API}/attention"): items(ref("Attention")),
    ("post", f"{_API}/attention/ack"): _ACKED,
    ("get", f"{_API}/sessions"): items(ref("AgentSession")),
    ("get", f"{_API}/accounts"): items(ref("AccountHold")),
    ("post", f"{_API}/accounts/{{account}}/release"): build_result_schema(ReleaseAccount, **SERVED),
    ("get", f"{_API}/work"): items(ref("WorkItem")),
    ("post", f"{_API}/work/release"): build_result_schema(ReleaseWork),
    ("get", f"{_API}/timeline"): items(ref("Span")),
    ("get", f"{_API}/hints"): items(ref("Hint")),
    ("delete", f"{_API}/hints/{{hint_id}}"): _CHANGES,
    ("get", f"{_API}/rules"): items(ref("ScheduleRules")),
    ("post", f"{_API}/rules/test"): ref("RuleTest"),
    ("post", f"{_API}/bulk"): {"anyOf": [_BULK, _BULK_DRY, _BULK_CANCEL]},
    ("get", f"{_API}/pauses"): items(ref("PlannedPause")),
    ("post", f"{_API}/pauses"): build_result_schema(PlanPause),
    ("delete", f"{_API}/pauses/{{pause}}"): build_result_schema(CancelPause),
    ("get", f"{_API}/planner/sessions"): items(ref("PlannerSession")),
    ("get", f"{_API}/planner/sessions/{{session_id}}"): ref("PlannerSession"),
    ("get", f"{_API}/notifications"): ref("Notifications"),
    ("post", f"{_API}/notifications/ack"): build_result_schema(ChangeEpisodes),
    ("post", f"{_API}/notifications/snooze"): build_result_schema(ChangeEpisodes),
    ("post", f"{_API}/notifications/test/{{channel}}"): build_result_schema(SendTestMessage),
    ("get", f"{_API}/config"): ref("ConfigValues"),
    ("post", f"{_API}/config/plan"): ref("Plan"),
    ("post", f"{_API}/config/apply"): ref("Plan"),
    ("get", f"{_API}/tokens"): items(ref("Token")),
    ("post", f"{_API}/tokens"): build_result_schema(CreateToken, token=TEXT),
    ("delete", f"{_API}/tokens/{{name}}"): build_result_schema(RevokeToken),
    ("get", f"{_API}/session"): ref("BrowserSession"),
    ("get", f"{_API}/refused-calls"): ref("RefusedCalls"),
    ("post", "/hooks/{target}/{schedule}"): _CALL,
    ("post", "/webhooks/{hook}"): _CALL,
    ("get", "/healthz"): ref("Health"),
    ("get", "/readyz"): ref("Health"),
}
"""By method and path. A route that another adapter adds, or that answers no JSON, has no entry."""
