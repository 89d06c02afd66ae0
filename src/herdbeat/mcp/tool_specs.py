"""The tools: their names, arguments and descriptions. Descriptions are short, because an agent pays for what it reads.

Two sets: an agent sees and changes itself; a person's program looks at the fleet and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from herdbeat.service.serialize import JsonObject

TEXT: JsonObject = {"type": "string"}
FLAG: JsonObject = {"type": "boolean"}
COUNT: JsonObject = {"type": "integer"}


class ToolName(StrEnum):
    WHOAMI = "whoami"
    WAKE_ME = "wake_me"
    SET_PACE = "set_pace"
    CANCEL_WAKE = "cancel_wake"
    REPORT_RESULT = "report_result"
    EXPLAIN_SCHEDULE = "explain_schedule"
    LIST_RUNS = "list_runs"
    CREATE_SCHEDULE = "create_schedule"
    DELETE_SCHEDULE = "delete_schedule"
    LIST_SCHEDULES = "list_schedules"
    GET_STATUS = "get_status"
    GET_RUN = "get_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """One tool as a client sees it. `arguments` have the JSON Schema of each; `returns` are the keys of its answer."""

    name: ToolName
    title: str
    description: str
    arguments: Mapping[str, JsonObject] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    changes: bool = False

    @property
    def input_schema(self) -> JsonObject:
        schema: JsonObject = {"type": "object", "properties": dict(self.arguments), "additionalProperties": False}
        return {**schema, "required": list(self.required)} if self.required else schema

    @property
    def output_schema(self) -> JsonObject:
        return {"type": "object"}

    @property
    def annotations(self) -> dict[str, bool]:
        """Hints for clients. Every change can be repeated without effect, and none leaves the fleet."""
        return {
            "readOnlyHint": not self.changes,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }

    def to_json(self) -> JsonObject:
        """Return the description that a client gets."""
        return {
            "name": str(self.name),
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
        }


_REASON: JsonObject = {"type": "string", "description": "why, for the person who reads it"}

AGENT_TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        name=ToolName.WHOAMI,
        title="Who am I",
        description=(
            "Your agent, schedule and run, why it runs now, your note from the last wake_me, pending wakes, pace, "
            "limits and budget."
        ),
    ),
    ToolSpec(
        name=ToolName.WAKE_ME,
        title="Wake me once",
        description=(
            "Run this schedule once more, later. Give after or at, one of them. The note is put into your next prompt. "
            'Replaces your pending wake. Example: after="20m", note="check the deploy", reason="build is running".'
        ),
        arguments={
            "after": {**TEXT, "description": "such as 20m, 2h, 1d"},
            "at": {**TEXT, "description": "RFC 3339"},
            "note": TEXT,
            "reason": _REASON,
        },
        required=("reason",),
        changes=True,
    ),
    ToolSpec(
        name=ToolName.SET_PACE,
        title="Set my pace",
        description=(
            "Run this schedule at another interval for a while, within its limits. The answer says what is effective. "
            'Example: every="2m", for="1h", reason="incident is open".'
        ),
        arguments={
            "every": TEXT,
            "for": {**TEXT, "description": "at most 24h; default 1h"},
            "reason": _REASON,
        },
        required=("every", "reason"),
        changes=True,
    ),
    ToolSpec(
        name=ToolName.CANCEL_WAKE,
        title="Cancel my wake",
        description="Cancel your pending wake, or the wake or pace with this id (see whoami).",
        arguments={"id": COUNT, "reason": _REASON},
        required=("reason",),
        changes=True,
    ),
    ToolSpec(
        name=ToolName.REPORT_RESULT,
        title="Report my result",
        description=(
            "Say how this run went. Rules read metrics and may change the pace. quiet: nothing worth a message. "
            "needs_you: what a person must decide. ok=false: the run failed. The last call counts. "
            'Example: summary="3 issues triaged", metrics={"open": 12}.'
        ),
        arguments={
            "summary": TEXT,
            "metrics": {"type": "object", "description": "names to numbers, booleans or short texts; at most 50"},
            "ok": FLAG,
            "quiet": FLAG,
            "needs_you": TEXT,
        },
        required=("summary",),
        changes=True,
    ),
    ToolSpec(
        name=ToolName.EXPLAIN_SCHEDULE,
        title="Explain my schedule",
        description="Why your next run is when it is; with at, why a past or future time did or will run.",
        arguments={"at": {**TEXT, "description": "RFC 3339"}},
    ),
    ToolSpec(
        name=ToolName.LIST_RUNS,
        title="List my runs",
        description="Your recent runs, newest first.",
        arguments={
            "status": {**TEXT, "description": "such as failed"},
            "since": {**TEXT, "description": "RFC 3339, or 24h"},
            "limit": COUNT,
        },
    ),
)

CREATE_TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        name=ToolName.CREATE_SCHEDULE,
        title="Create a schedule of mine",
        description=(
            "Run you with another prompt, at times of its own, until it expires. Give every, cron or at, one of them. "
            "Your limits hold. The same name again changes it. "
            'Example: name="watch-deploy", every="10m", expires="1d", prompt="Check the deploy.", reason="release day".'
        ),
        arguments={
            "name": TEXT,
            "prompt": TEXT,
            "every": {**TEXT, "description": "such as 10m"},
            "cron": {**TEXT, "description": "five fields, in your timezone"},
            "at": {**TEXT, "description": "RFC 3339, once"},
            "expires": {**TEXT, "description": "at most 30d; default 7d"},
            "reason": _REASON,
        },
        required=("name", "prompt", "reason"),
        changes=True,
    ),
    ToolSpec(
        name=ToolName.DELETE_SCHEDULE,
        title="Delete a schedule of mine",
        description="Delete a schedule that you have created (see whoami).",
        arguments={"name": TEXT, "reason": _REASON},
        required=("name", "reason"),
        changes=True,
    ),
)
"""Beside the tools of an agent whose file says `allow_create`."""

_SCHEDULE: JsonObject = {**TEXT, "description": "TARGET or TARGET/SCHEDULE"}

READ_TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        name=ToolName.LIST_SCHEDULES,
        title="List schedules",
        description="All schedules of the fleet, or those of a target: when they run, their state and last result.",
        arguments={"target": TEXT, "limit": COUNT},
    ),
    ToolSpec(
        name=ToolName.GET_STATUS,
        title="Status of the fleet",
        description="Whether the fleet runs, what is running, late, failing, held or needs a person.",
    ),
    ToolSpec(
        name=ToolName.EXPLAIN_SCHEDULE,
        title="Explain a schedule",
        description="Why a schedule runs next when it does; with at, why a past or future time did or will run.",
        arguments={"schedule": _SCHEDULE, "at": {**TEXT, "description": "RFC 3339"}},
        required=("schedule",),
    ),
    ToolSpec(
        name=ToolName.LIST_RUNS,
        title="List runs",
        description="Recent runs, newest first.",
        arguments={
            "schedule": _SCHEDULE,
            "status": {**TEXT, "description": "such as failed"},
            "since": {**TEXT, "description": "RFC 3339, or 24h"},
            "limit": COUNT,
        },
    ),
    ToolSpec(
        name=ToolName.GET_RUN,
        title="Show a run",
        description="One run: its result, answer, error and cost.",
        arguments={"id": TEXT},
        required=("id",),
    ),
)
