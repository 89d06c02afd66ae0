"""Commands: every request that changes a fleet, as frozen values with a JSON form and a typed result.

An adapter (CLI, socket, Python, REST, MCP, chat) builds a `Command` and hands it to a dispatcher with the `Actor`
that requests it. A new command is one dataclass here, its name in COMMAND_TYPES, and a handler in `dispatch._HANDLERS`.

This module loads no engine: a process that only sends commands to a running fleet needs nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from herdbeat.domain.beat import SkipReason
from herdbeat.domain.change import ChangeData, ChangeKind
from herdbeat.domain.codec import from_json, to_json
from herdbeat.domain.decision import Source
from herdbeat.domain.schedule import RunSpec, display_name
from herdbeat.domain.target import CreatedVia
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.domain.webhook_call import EventAnswer, IncomingEvent
from herdbeat.error_codes import Code
from herdbeat.errors import Conflict, HerdbeatError, SourceLocation, UsageError
from herdbeat.service.serialize import JsonObject
from herdbeat.timestamps import format_timestamp
from herdbeat.triggers import load_trigger

R = TypeVar("R")


class Scope(StrEnum):
    """What an actor may do. Each command names the one scope it needs."""

    READ = "read"
    TRIGGER = "trigger"  # start what the fleet knows
    CONTROL = "control"  # pause, hint, cancel
    ADMIN = "admin"  # change what the fleet is
    SELF = "self"  # what an agent may ask about its own schedule
    EXEC = "exec"  # what the process of a remote run may do: take it, and report for it

    @property
    def granted_by(self) -> str:
        """The scope of a token that includes it, as one writes it for `herdbeat token create`."""
        return "operate" if self in (Scope.TRIGGER, Scope.CONTROL) else self.value


ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who requests a command: `human:you`, `agent:triage`, `rule:surge`, `program`.

    The name is recorded in beats and in the change log. With a `target`, the actor reaches the schedules of that target
    and no others. One that `is_remote` came through the server: whatever its scopes, it cannot say what is executed.
    """

    name: str
    scopes: frozenset[Scope] = ALL_SCOPES
    target: str = ""
    is_remote: bool = False

    def to_json(self) -> JsonObject:
        limits: JsonObject = {"target": self.target} if self.target else {}
        return {"name": self.name, "scopes": sorted(self.scopes), **limits, "remote": self.is_remote}

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Raises UsageError if the data names no actor."""
        given: Mapping[str, object] = data if isinstance(data, Mapping) else {}
        name, scopes, target = given.get("name"), given.get("scopes"), given.get("target", "")
        if not isinstance(name, str) or not name or not isinstance(scopes, list) or not isinstance(target, str):
            raise UsageError("The request has no actor.", hint='Send "actor" with its "name" and "scopes".')
        allowed = frozenset(Scope(each) for each in scopes if each in ALL_SCOPES)
        return cls(name=name, scopes=allowed, target=target, is_remote=given.get("remote") is True)


class Forbidden(HerdbeatError):
    """The actor lacks the scope that the command needs, or may not reach its subject."""

    code = Code.FORBIDDEN
    exit_status = 4
    http_status = 403


class ManagedByConfig(Conflict):
    """A file defines what a request wants to change. `defined_at` is the place, if the ledger knows it."""

    code = Code.MANAGED_BY_CONFIG

    def __init__(self, message: str, *, hint: str, defined_at: SourceLocation | None = None) -> None:
        super().__init__(message, hint=hint)
        self.defined_at = defined_at


class StaleVersion(Conflict):
    """What a request wants to change was changed since the sender read it."""

    code = Code.STALE_VERSION
    http_status = 412


class KeyReused(Conflict):
    """A sender gave one key to two different requests, or to one whose key another sender has used."""

    code = Code.KEY_REUSED


# Results. Their fields are the keys of `--json`, in its order: rename none.


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """The result for one schedule. `refused` says why nothing was changed, `hint` how to fix that."""

    schedule: str
    changed: bool
    before: ChangeData
    after: ChangeData
    next_run_at: datetime | None
    source: Source | None
    running: int
    notes: tuple[str, ...] = ()
    refused: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChanges:
    """What a command has done to each of its schedules."""

    items: tuple[ScheduleChange, ...] = ()

    @property
    def changed(self) -> tuple[ScheduleChange, ...]:
        return tuple(each for each in self.items if each.changed)

    @property
    def refused(self) -> tuple[ScheduleChange, ...]:
        return tuple(each for each in self.items if each.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledWork:
    """The runs of one schedule that end, and how many beats of it no longer wait. `id` is 0 for a single run."""

    schedule: str
    id: int
    runs: tuple[str, ...]
    called_off: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelResult:
    """The runs and beats that were cancelled, by schedule."""

    items: tuple[CancelledWork, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedRun:
    """One more attempt at the beat of a run. If there is none, `refused` says why."""

    schedule: str
    asked: str
    retries: str
    beat: str
    success: bool
    attempt: int | None
    refused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedRuns:
    """The attempt that each run got, or why it got none."""

    items: tuple[RetriedRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedItem:
    """A work item that is offered again; if not, `refused` says what is in the way.

    `host` is the machine whose node has to offer it; None if every node can, or if only the ledger was changed.
    """

    item: str
    source: str
    schedule: str
    success: bool
    refused: str
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedItems:
    """The work items that were released, or why they were not."""

    items: tuple[ReleasedItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfilledSchedule:
    """The number of the backfill, its first and last instant, and when the last of them may start."""

    schedule: str
    backfill: int
    count: int
    first: datetime
    last: datetime
    last_start_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggeredBeat:
    """The beat that was written, or why none was. `waits_for` says what it has to wait for first."""

    schedule: str
    success: bool
    skipped: bool
    skip_reason: SkipReason | None
    waits_for: SkipReason | None
    beat: str | None
    running: int
    max_concurrent: int
    next_run_at: datetime | None
    deduplicated: bool = False
    """Whether the beat was there before: it has the same dedup id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertedSchedule:
    """`when` and `enabled` are None for a target without a schedule."""

    what: ChangeKind
    subject: str
    removed: tuple[str, ...]
    next_run_at: datetime | None
    when: str | None
    enabled: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedSchedules:
    """What was deleted, with all schedules that went with it."""

    what: ChangeKind
    subject: str
    removed: tuple[str, ...]
    next_run_at: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFleet:
    """The schedules that an apply added, changed and removed, by label; and what changed of targets themselves."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The result for each schedule of a state file, by name. `unknown` schedules are not in this fleet."""

    taken: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class PruneResult:
    """What was removed, or would be. Not frozen: pruning counts in it, one short transaction after the other."""

    beats: int = 0
    runs: int = 0
    logs: int = 0
    plans: int = 0
    hints: int = 0
    changes: int = 0


# Commands.


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[R]):
    """One request to change something. `kind` is its word on the wire, `R` the type of its result."""

    kind: ClassVar[str]
    scope: ClassVar[Scope] = Scope.CONTROL
    result_type: ClassVar[type[Any]]
    batch_field: ClassVar[str] = ""
    """The field that names many subjects: a dispatcher runs them `batch_size` at a time."""
    batch_size: ClassVar[int] = 1
    edits_specs: ClassVar[bool] = False
    """Whether nodes have to read targets and prompts again."""
    sends_messages: ClassVar[bool] = False
    """Whether it may leave something in the outbox, which is then sent at once."""
    is_repeatable: ClassVar[bool] = False
    """Whether a repetition changes nothing by itself. Then no result of it is kept, which may be a secret or large."""
    response_timeout_s: ClassVar[float] = 5.0

    reason: str = ""

    def split(self) -> Iterator[Self]:
        """Yield the command in parts of one transaction each, so that due beats get the writer in between."""
        subjects: tuple[Any, ...] = getattr(self, self.batch_field) if self.batch_field else ()
        if len(subjects) <= self.batch_size:
            yield self
            return
        for start in range(0, len(subjects), self.batch_size):
            part: dict[str, Any] = {self.batch_field: subjects[start : start + self.batch_size]}
            yield replace(self, **part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCommand(Command[ScheduleChanges]):
    """A change of schedules, given by their ids: what a person has confirmed is what is changed."""

    result_type: ClassVar[type[Any]] = ScheduleChanges
    batch_field: ClassVar[str] = "schedules"
    batch_size: ClassVar[int] = 100

    schedules: tuple[int, ...] = ()

    @property
    def what(self) -> ChangeKind:
        """The word of the change log."""
        return ChangeKind(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldCommand(ScheduleCommand):
    """Pause and disable. With `cancel_running` they also stop active runs."""

    cancel_running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSchedules(HoldCommand):
    """Hold schedules until a moment, or until they are resumed."""

    kind: ClassVar[str] = ChangeKind.PAUSE
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSchedules(ScheduleCommand):
    """End the pauses of schedules."""

    kind: ClassVar[str] = ChangeKind.RESUME


@dataclass(frozen=True, slots=True, kw_only=True)
class DisableSchedules(HoldCommand):
    """Keep schedules from running until they are enabled."""

    kind: ClassVar[str] = ChangeKind.DISABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class EnableSchedules(ScheduleCommand):
    """Let disabled schedules run, and re-arm one-shots that have fired."""

    kind: ClassVar[str] = ChangeKind.ENABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class HintSchedules(ScheduleCommand):
    """Another interval in seconds, or one more instant, for so many seconds. The governor validates the numbers."""

    kind: ClassVar[str] = ChangeKind.HINT
    every: float | None = None
    at: datetime | None = None
    lasts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearHints(ScheduleCommand):
    """End the hints: a person all of them, a machine those of its own rank and below. `hint` names one by its id."""

    kind: ClassVar[str] = ChangeKind.CLEAR_HINTS
    hint: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreHints(ScheduleCommand):
    """Undo what the same actor did to hints at a moment: end those that were given, revive those that were ended."""

    kind: ClassVar[str] = ChangeKind.RESTORE_HINTS
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSchedules(ScheduleCommand):
    """Forget the failures, and leave the quarantine if that is possible."""

    kind: ClassVar[str] = ChangeKind.RESET


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipBeats(ScheduleCommand):
    """Skip the next `count` beats; 0 skips none of them."""

    kind: ClassVar[str] = ChangeKind.SKIP
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordState(ScheduleCommand):
    """Record what a program knows of a schedule: its last run, its next run, its last error ("" for none).

    None leaves as it is. The next run of an interval moves; for a calendar it is one more instant.
    """

    kind: ClassVar[str] = "record_state"
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None
    last_error: str | None = None

    @property
    def what(self) -> ChangeKind:
        return ChangeKind.EDIT


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSchedules(Command[CancelResult]):
    """Stop every run of these schedules, and settle the beats that wait. `force` kills programs at once."""

    kind: ClassVar[str] = ChangeKind.CANCEL
    result_type: ClassVar[type[Any]] = CancelResult
    batch_field: ClassVar[str] = "schedules"
    batch_size: ClassVar[int] = 500
    schedules: tuple[int, ...]
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRuns(Command[CancelResult]):
    """Stop single runs. Waiting beats of their schedules keep waiting."""

    kind: ClassVar[str] = "cancel_runs"
    result_type: ClassVar[type[Any]] = CancelResult
    batch_field: ClassVar[str] = "runs"
    batch_size: ClassVar[int] = 500
    runs: tuple[int, ...]
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRuns(Command[RetriedRuns]):
    """One more attempt at the beats of these runs. `force` also repeats what succeeded."""

    kind: ClassVar[str] = ChangeKind.RETRY
    scope: ClassVar[Scope] = Scope.TRIGGER
    result_type: ClassVar[type[Any]] = RetriedRuns
    batch_field: ClassVar[str] = "runs"
    batch_size: ClassVar[int] = 1_000
    runs: tuple[int, ...]
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSchedule(Command[BackfilledSchedule]):
    """Run the instants of a schedule from `start` up to and without `end`, as far as they have passed."""

    kind: ClassVar[str] = ChangeKind.BACKFILL
    result_type: ClassVar[type[Any]] = BackfilledSchedule
    schedule: int
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSchedule(Command[TriggeredBeat]):
    """Run a schedule now, in addition to its own times. If it cannot start now it is refused, unless `queue` is set."""

    kind: ClassVar[str] = "run"
    scope: ClassVar[Scope] = Scope.TRIGGER
    result_type: ClassVar[type[Any]] = TriggeredBeat
    schedule: int
    queue: bool = False
    dedup_id: str = ""
    """What identifies the request for its sender: the beat that has this id is answered instead of a second one."""
    is_private_id: bool = False
    """Whether the id is a key of this sender alone: a beat that has it is that of another sender, and is refused."""
    prompt: str = field(default="", repr=False)
    """A prompt for this one run, in the place of the schedule's."""
    input: str = field(default="", repr=False)
    """JSON text that this run has in the place of the body of a webhook call."""
    reset: bool = False
    """Whether an interval counts its next run from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTarget:
    """A target as a command carries it: its spec in the JSON of the ledger."""

    kind: str
    spec: Mapping[str, object]
    max_concurrent: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to create: its timing, what its runs are given, and whether it is enabled."""

    plan: ScheduleSpec
    brief: RunSpec
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertSchedule(Command[UpsertedSchedule]):
    """Add or edit a schedule without a file; `what` is add or edit. Without a `name` it adds a target alone."""

    kind: ClassVar[str] = "make"
    result_type: ClassVar[type[Any]] = UpsertedSchedule
    edits_specs: ClassVar[bool] = True
    what: ChangeKind
    target: str
    name: str | None = None
    new_target: NewTarget | None = None
    new_schedule: NewSchedule | None = None
    expected: str = ""
    """The version of the schedule, or of the target alone, that an edit is based on; empty for any."""
    way: CreatedVia = CreatedVia.CLI

    @property
    def label(self) -> str:
        return _format_label(self.target, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSchedule(Command[DeletedSchedules]):
    """Remove a schedule that no file defines; without a `name`, the target with all its schedules."""

    kind: ClassVar[str] = ChangeKind.REMOVE
    result_type: ClassVar[type[Any]] = DeletedSchedules
    edits_specs: ClassVar[bool] = True
    target: str
    name: str | None = None
    expected: str = ""
    """The version of the schedule, or of the target alone, that its sender has seen; empty for any."""

    @property
    def label(self) -> str:
        return _format_label(self.target, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyFleet(Command[AppliedFleet]):
    """Make the ledger match the files at `path`. The process that executes it reads them, in its own environment."""

    kind: ClassVar[str] = "apply"
    scope: ClassVar[Scope] = Scope.ADMIN
    result_type: ClassVar[type[Any]] = AppliedFleet
    edits_specs: ClassVar[bool] = True
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """The state that another scheduler has stored for one schedule."""

    agent: str
    name: str
    last_run_at: datetime | None = None
    last_error: str = ""
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportState(Command[ImportResult]):
    """Import the state of another scheduler. A schedule that has run here keeps its own state."""

    kind: ClassVar[str] = "remember"
    scope: ClassVar[Scope] = Scope.ADMIN
    result_type: ClassVar[type[Any]] = ImportResult
    batch_field: ClassVar[str] = "states"
    batch_size: ClassVar[int] = 100
    states: tuple[StateEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneHistory(Command[PruneResult]):
    """Remove the history that the fleet's `retention` does not keep."""

    kind: ClassVar[str] = "prune"
    scope: ClassVar[Scope] = Scope.ADMIN
    result_type: ClassVar[type[Any]] = PruneResult
    response_timeout_s: ClassVar[float] = 3_600.0  # the first prune of a long history takes its time


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedToken:
    """A token as it was written. Its text is known only to the one who made it."""

    name: str
    scope: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken(Command[CreatedToken]):
    """Add a token of the server. `digest` is the hash of its text, which never leaves the process that made it."""

    kind: ClassVar[str] = "create_token"
    scope: ClassVar[Scope] = Scope.ADMIN
    result_type: ClassVar[type[Any]] = CreatedToken
    name: str
    grants: str
    digest: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedToken:
    """The token that is no longer valid."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeToken(Command[RevokedToken]):
    """Make a token invalid from now on."""

    kind: ClassVar[str] = "revoke_token"
    scope: ClassVar[Scope] = Scope.ADMIN
    result_type: ClassVar[type[Any]] = RevokedToken
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedAccount:
    """How many holds of an account were released; 0 if it was not held."""

    account: str
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAccount(Command[ReleasedAccount]):
    """Use an account again although its usage limit has not ended, for example after buying more."""

    kind: ClassVar[str] = "release_account"
    result_type: ClassVar[type[Any]] = ReleasedAccount
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AckResult:
    """How many runs that needed a person were acknowledged."""

    acked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AckRuns(Command[AckResult]):
    """Acknowledge that these runs needed a person."""

    kind: ClassVar[str] = "ack"
    result_type: ClassVar[type[Any]] = AckResult
    runs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodesChanged:
    """How many open episodes were acknowledged or snoozed."""

    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEpisodes(Command[EpisodesChanged]):
    """Acknowledge the open episodes of these schedules, accounts or nodes; with `until`, tell them later instead."""

    kind: ClassVar[str] = "change_episodes"
    result_type: ClassVar[type[Any]] = EpisodesChanged
    subjects: tuple[str, ...] = ()
    until: datetime | None = None
    clear: bool = False
    """Undo an acknowledgement or a snooze: the episode is reported as if it had not been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseChange:
    """A planned pause that was saved or cancelled, and how many schedules it holds."""

    id: int
    selection: str
    from_at: datetime
    until: datetime
    reason: str
    schedules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPause(Command[PauseChange]):
    """Pause what is selected from a moment to another. Schedules that come until then are selected, too."""

    kind: ClassVar[str] = ChangeKind.PLAN_PAUSE
    result_type: ClassVar[type[Any]] = PauseChange
    response_timeout_s: ClassVar[float] = 30.0
    from_at: datetime
    until: datetime
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    everything: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelPause(Command[PauseChange]):
    """End a planned pause now, or cancel it before it begins."""

    kind: ClassVar[str] = ChangeKind.CANCEL_PAUSE
    result_type: ClassVar[type[Any]] = PauseChange
    response_timeout_s: ClassVar[float] = 30.0
    pause: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueued:
    """The id of a message that was put into the outbox."""

    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTestMessage(Command[MessageQueued]):
    """Send a test message to a channel."""

    kind: ClassVar[str] = "send_test_message"
    sends_messages: ClassVar[bool] = True
    result_type: ClassVar[type[Any]] = MessageQueued
    channel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReceipt:
    """The outcome of a message: a beat, or a reply."""

    accepted: bool
    reply: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveChat(Command[ChatReceipt]):
    """A message for an agent. With `may_command` its author may stop, run and pause by words.

    A reply goes to the thread of the message, unless the platform wants it as its answer (`replies_inline`).
    """

    kind: ClassVar[str] = "receive_chat"
    sends_messages: ClassVar[bool] = True
    scope: ClassVar[Scope] = Scope.TRIGGER
    result_type: ClassVar[type[Any]] = ChatReceipt
    platform: str
    target: str
    channel: str
    thread: str
    message: str
    user: str
    text: str
    bot_token_env: str = ""
    may_command: bool = False
    has_thread: bool = True
    replies_inline: bool = False

    @property
    def event_id(self) -> str:
        """What makes the message unique, and the request id of this command."""
        return f"{self.platform}:{self.channel}:{self.thread}:{self.message}"

    @property
    def actor_name(self) -> str:
        return f"human:{self.user}@{self.platform}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfChange:
    """The outcome of a request of an agent about its own schedule. Times that are not known yet are None.

    A `refused` request has changed nothing: the code says why, `detail` and `hint` say it in words, and `accepted` has
    values that would not be refused. `effective_every_s` is what the limits leave of a pace.
    """

    schedule: str
    changed: bool = False
    id: int | None = None
    at: datetime | None = None
    every_s: float | None = None
    effective_every_s: float | None = None
    until: datetime | None = None
    next_run_at: datetime | None = None
    source: Source | None = None
    wakes_left: int | None = None
    notes: tuple[str, ...] = ()
    refused: str = ""
    detail: str = ""
    hint: str = ""
    accepted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCommand(Command[SelfChange]):
    """A request of an agent about its own schedule. `run` is the active run that it asks from; 0 outside of a run."""

    scope: ClassVar[Scope] = Scope.SELF
    result_type: ClassVar[type[Any]] = SelfChange
    schedule: int
    run: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAgent(SelfCommand):
    """Run once more, after so many seconds or at a moment, with this note."""

    kind: ClassVar[str] = "wake_agent"
    after: float | None = None
    at: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceAgent(SelfCommand):
    """Run at another interval, for so many seconds."""

    kind: ClassVar[str] = "pace_agent"
    every: float
    lasts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAgentHint(SelfCommand):
    """End the pending wake, or the wake or pace with this id."""

    kind: ClassVar[str] = "cancel_agent_hint"
    hint: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRun(SelfCommand):
    """Say how the active run goes. The last report counts."""

    kind: ClassVar[str] = "report_run"
    ok: bool | None = None
    quiet: bool = False
    needs_you: str = ""
    summary: str = ""
    metrics: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOwnSchedule(SelfCommand):
    """Add a schedule to the agent that asks, which ends by itself; or change one that an agent has added.

    Exactly one of `every`, `cron` and `at` is given. `expires_s` counts from now.
    """

    kind: ClassVar[str] = "create_own_schedule"
    edits_specs: ClassVar[bool] = True
    name: str
    prompt: str = field(repr=False)
    every: str = ""
    cron: str = ""
    at: datetime | None = None
    expires_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOwnSchedule(SelfCommand):
    """Remove a schedule that an agent has added to itself."""

    kind: ClassVar[str] = "delete_own_schedule"
    edits_specs: ClassVar[bool] = True
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWork(Command[ReleasedItems]):
    """Offer work items again, by the ids of their claims.

    With `only_ledger` their sources are not asked: for items whose host is gone.
    """

    kind: ClassVar[str] = "release_work"
    scope: ClassVar[Scope] = Scope.CONTROL
    result_type: ClassVar[type[Any]] = ReleasedItems
    batch_field: ClassVar[str] = "claims"
    batch_size: ClassVar[int] = 1_000
    claims: tuple[int, ...]
    only_ledger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvents:
    """The outcome of each event, in the order of the command."""

    answers: tuple[EventAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveEvents(Command[ReceivedEvents]):
    """Write the beats of verified calls, many in one transaction. They are durable once there is a result."""

    kind: ClassVar[str] = "receive"
    scope: ClassVar[Scope] = Scope.TRIGGER
    result_type: ClassVar[type[Any]] = ReceivedEvents
    batch_field: ClassVar[str] = "events"
    batch_size: ClassVar[int] = 500
    events: tuple[IncomingEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRun:
    """What the process that has taken a run gets. `refused` says why it gets nothing.

    `data` is the job as JSON. With `secret` it reports; `run_token` and `note` are for the tools of an agent.
    """

    data: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    run_token: str = field(default="", repr=False)
    note: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRemoteRun(Command[TakenRun]):
    """Take a run that was submitted to an engine. The first process gets it; `nonce` is its number.

    It proves itself by a token of the machines of the `executor`, or by the one-run token with this `digest`.
    """

    kind: ClassVar[str] = "take_remote_run"
    scope: ClassVar[Scope] = Scope.EXEC
    result_type: ClassVar[type[Any]] = TakenRun
    is_repeatable: ClassVar[bool] = True
    run: int
    nonce: str
    place: str = ""
    executor: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRunReceipt:
    """Whether the process may go on. If not, `stop` says why; `is_over` if nothing more is accepted from it."""

    stop: str = ""
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRemoteRun(Command[RemoteRunReceipt]):
    """Renew the lease of a remote run, and keep a part of its log or its result. A repeated part changes nothing."""

    kind: ClassVar[str] = "report_remote_run"
    scope: ClassVar[Scope] = Scope.EXEC
    result_type: ClassVar[type[Any]] = RemoteRunReceipt
    is_repeatable: ClassVar[bool] = True
    run: int
    nonce: str
    sequence: int = 0
    log: str = field(default="", repr=False)
    result: str = field(default="", repr=False)


COMMAND_TYPES: dict[str, type[Command[Any]]] = {
    each.kind: each
    for each in (
        *(PauseSchedules, ResumeSchedules, DisableSchedules, EnableSchedules, HintSchedules, ClearHints),
        *(
            RestoreHints,
            RecordState,
            ResetSchedules,
            SkipBeats,
            CancelSchedules,
            CancelRuns,
            RetryRuns,
            BackfillSchedule,
        ),
        *(TriggerSchedule, UpsertSchedule, DeleteSchedule, ApplyFleet, ImportState, PruneHistory),
        *(CreateToken, RevokeToken, ReleaseAccount, AckRuns, ReleaseWork, ReceiveEvents),
        *(ChangeEpisodes, SendTestMessage, PlanPause, CancelPause, ReceiveChat),
        *(WakeAgent, PaceAgent, CancelAgentHint, ReportRun, TakeRemoteRun, ReportRemoteRun),
        *(CreateOwnSchedule, DeleteOwnSchedule),
    )
}


def command_to_json(command: Command[Any]) -> JsonObject:
    return {"kind": command.kind, **to_json(command)}


def command_from_json(data: object) -> Command[Any]:
    """Raises UsageError if the data is no command."""
    if not isinstance(data, Mapping) or data.get("kind") not in COMMAND_TYPES:
        hint = f'Send "kind": {", ".join(COMMAND_TYPES)}.'
        raise UsageError('The command has no known "kind".', hint=hint)
    content = {str(key): value for key, value in data.items() if key != "kind"}
    try:
        return from_json(COMMAND_TYPES[data["kind"]], content, load_trigger)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"The command is invalid: {error}.", hint="Send only the fields of this command.") from error


def result_to_json(result: object) -> JsonObject:
    """Return the object that `--json` prints and the socket carries: every field, defaults too."""
    assert is_dataclass(result)
    return {each.name: _to_plain(getattr(result, each.name)) for each in fields(result)}


def result_from_json(command: Command[R], data: object) -> R:
    return cast("R", from_json(command.result_type, data, load_trigger))


def merge_results(parts: Sequence[R]) -> R:
    """Return the result of a command that was split: its parts one after the other."""
    first: Any = parts[0]
    if len(parts) == 1:
        return parts[0]
    names = [each.name for each in fields(first)]
    joined = {name: tuple(item for part in parts for item in getattr(part, name)) for name in names}
    return cast("R", replace(first, **joined))


def _to_plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, tuple | list):
        return [_to_plain(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return result_to_json(value) if is_dataclass(value) else value


def _format_label(target: str, name: str | None) -> str:
    return target if name is None else display_name(target, name)
