"""The bodies of requests. Each is checked here for its shape; what its values mean is checked by `service`."""

import json
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from fastapi import Body as FromBody
from fastapi import Path
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)

MAX_TEXT_CHARS = 2_000
MAX_ROW_ID = 2**63 - 1
"""The largest id that a ledger can have."""

RowId = Annotated[int, Path(ge=1, le=MAX_ROW_ID, examples=[12])]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]


FIRST_TIME = datetime(1900, 1, 1, tzinfo=UTC)
LAST_TIME = datetime(9999, 12, 1, tzinfo=UTC)


def _to_utc(moment: datetime) -> datetime:
    try:
        return min(max(moment.astimezone(UTC), FIRST_TIME), LAST_TIME)
    except OverflowError:
        return FIRST_TIME if moment.year == 1 else LAST_TIME


UtcTime = Annotated[AwareDatetime, AfterValidator(_to_utc)]
"""A time with an offset. The first and last days of the calendar are moved inwards: there, an offset, a time zone or an
interval leads out of it.
"""

DurationText = Annotated[str, StringConstraints(max_length=40), Field(examples=["5m"])]


class Body(BaseModel):
    """A body knows its keys: a misspelled one is refused, not ignored."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class ReasonBody(Body):
    reason: Text = Field("", description="Recorded in the change log", examples=["database migration"])


class DefinitionBody(ReasonBody):
    """The keys of a fleet file, which are checked where those of a file are."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _require_text(self) -> Self:
        """A half of a surrogate pair is no text: no file can have it, and no message can show it."""
        try:
            json.dumps(self.model_extra, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("a text has a half of a surrogate pair") from error
        return self


class PauseBody(ReasonBody):
    until: UtcTime | None = Field(None, description="End of the pause; without it, until it is resumed")
    for_: DurationText | None = Field(None, alias="for", description="Length of the pause, instead of `until`")
    cancel_running: bool = False


class HoldBody(ReasonBody):
    cancel_running: bool = False


class SkipBody(ReasonBody):
    count: int = Field(1, ge=0, le=1_000, description="Beats to skip; 0 skips none of them")


class RunBody(ReasonBody):
    dedup_id: Annotated[str, StringConstraints(max_length=200)] = Field(
        "", description="The same id on the same schedule starts one run. Idempotency-Key is the same"
    )
    queue: bool = Field(False, description="Wait for room instead of being refused")
    prompt: Annotated[str, StringConstraints(max_length=100_000)] = Field(
        "", description="Prompt for this run, instead of the schedule's; needs the scope admin"
    )
    input: JsonValue = Field(None, description="Data in the place of a webhook call, for schedules of that type")
    reset: bool = Field(False, description="Count the next run of an interval from now")


class BackfillBody(ReasonBody):
    from_: UtcTime = Field(alias="from", description="The first instant that may run")
    until: UtcTime | None = Field(None, description="The end of the window; without it, now")
    max: int = Field(100, ge=1, le=10_000, description="Refuse to create more beats than this")
    dry_run: bool = False


class ReleaseBody(ReasonBody):
    items: list[Annotated[str, StringConstraints(max_length=200)]] = Field(
        min_length=1, max_length=100, description="Ids of work items", examples=[["acme/app#12"]]
    )


class AttentionBody(ReasonBody):
    runs: list[Annotated[str, StringConstraints(max_length=40)]] = Field(default=[], max_length=1_000)
    selector: Annotated[str, StringConstraints(max_length=200)] = Field(
        "", description="TARGET or TARGET/SCHEDULE: all its runs that need a person"
    )
    all: bool = False


class RuleTestBody(Body):
    schedule: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(examples=["queue-depth"])
    since: UtcTime | None = Field(None, description="Replay the runs since then; without it, of 7 days")


class TargetChangeBody(DefinitionBody):
    """The keys of an endpoint to change, as in a fleet file; the others stay."""


class HintBody(ReasonBody):
    every: DurationText | None = None
    at: UtcTime | None = None
    ttl: DurationText | None = Field(None, description="How long the hint lasts")


class CancelBody(ReasonBody):
    force: bool = Field(False, description="Kill programs at once")


class RetryBody(ReasonBody):
    force: bool = Field(False, description="Repeat also what succeeded")


class ScheduleBody(DefinitionBody):
    """A schedule in the keys of a fleet file: its trigger, timing policies, tags. A prompt needs the scope admin."""

    schedule: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="TARGET/NAME, or TARGET for its default schedule", examples=["queue-depth/nightly"]
    )


class ScheduleChangeBody(DefinitionBody):
    """The keys to change, as in a fleet file; the others stay."""


class TargetBody(DefinitionBody):
    """An endpoint. Commands, agents and callables are defined in files only."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)] = Field(examples=["queue-depth"])
    url: Annotated[str, StringConstraints(max_length=2_000)] = Field(examples=["https://api.example.com/queue"])


class SelectBody(Body):
    """Which schedules: any of these selects one."""

    names: list[Annotated[str, StringConstraints(max_length=200)]] = Field(default=[], max_length=1_000)
    tag: list[Text] | Text = []
    group: list[Text] | Text = []
    all: bool = False


class PlanPauseBody(ReasonBody):
    select: SelectBody
    from_: UtcTime = Field(alias="from", description="When it begins")
    until: UtcTime | None = Field(None, description="When it ends")
    for_: DurationText | None = Field(None, alias="for", description="How long it lasts, instead of `until`")


class AckBody(ReasonBody):
    subjects: list[Annotated[str, StringConstraints(max_length=200)]] = Field(
        default=[], max_length=1_000, description="Schedules, accounts or nodes; all without any"
    )
    clear: bool = Field(False, description="Take an acknowledgement or a snooze back")


class SnoozeBody(ReasonBody):
    subjects: list[Annotated[str, StringConstraints(max_length=200)]] = Field(default=[], max_length=1_000)
    for_: DurationText = Field(alias="for", description="How long to wait", examples=["2h"])


class BulkArguments(PauseBody):
    force: bool = Field(False, description="For cancel: kill programs at once")
    count: int = Field(1, ge=0, le=1_000)
    every: DurationText | None = None
    at: UtcTime | None = None
    ttl: DurationText | None = None
    hint: int | None = Field(None, ge=1, le=MAX_ROW_ID, description="With clear_hints: only the hint with this id")


class BulkBody(Body):
    select: SelectBody
    action: Literal["pause", "resume", "enable", "disable", "skip", "reset", "hint", "clear_hints", "cancel"]
    args: BulkArguments = Field(default_factory=lambda: BulkArguments.model_validate({}))
    dry_run: bool = False
    expect: int | None = Field(None, ge=0, description="Refuse if another number of schedules is selected")


class PreviewBody(Body):
    expression: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Cron expression, duration or time", examples=["0 9 * * 1-5"]
    )
    timezone: Annotated[str, StringConstraints(max_length=60)] = "UTC"
    count: int = Field(10, ge=1, le=200)
    from_: UtcTime | None = Field(None, alias="from")


class TokenBody(ReasonBody):
    name: Annotated[str, StringConstraints(max_length=64)] = Field(examples=["ci"])
    scope: Annotated[str, StringConstraints(max_length=300)] = Field(examples=["operate"])
    expires: DurationText | None = Field("90d", description="When the token ends; null for never")


class LoginBody(Body):
    token: Annotated[str, StringConstraints(max_length=200)]


# All of these may be left out: `curl -X POST …/resume` sends no body at all.
ReasonInput = Annotated[ReasonBody, FromBody(default_factory=ReasonBody)]
PauseInput = Annotated[PauseBody, FromBody(default_factory=PauseBody)]
HoldInput = Annotated[HoldBody, FromBody(default_factory=HoldBody)]
SkipInput = Annotated[SkipBody, FromBody(default_factory=SkipBody)]
RunInput = Annotated[RunBody, FromBody(default_factory=RunBody)]
CancelInput = Annotated[CancelBody, FromBody(default_factory=CancelBody)]
RetryInput = Annotated[RetryBody, FromBody(default_factory=RetryBody)]
AckInput = Annotated[AckBody, FromBody(default_factory=AckBody)]


Nonce = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]


class TakeBody(Body):
    """The process of a remote run that wants to take it."""

    nonce: Nonce
    place: Annotated[str, StringConstraints(max_length=200)] = ""


class ReportBody(Body):
    """A report of that process: a part of the log, its result, or neither to keep the lease."""

    nonce: Nonce
    sequence: int = Field(0, ge=0, le=1_000_000_000)
    log: str = ""
    result: str = ""
    wants_told: bool = False
