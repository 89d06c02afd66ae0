"""docs/reference/words.md: every closed set of words, with the meaning of each member.

A new member without a meaning here fails the generator, and with it the tests.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from herdbeat.domain.beat import BeatOutcome, MergedReason, MissedReason, SkipReason
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source, StepKind
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.service.queries.hints import HintState
from herdbeat.service.queries.schedule_state import DisplayState
from scripts import markdown

Word = TypeVar("Word", bound=StrEnum)

_INTRO = """\
These are the values that files, JSON and screens use. Each has the same meaning everywhere. The
[glossary](../glossary.md) explains the terms.
"""

_TRIGGERS = {
    TriggerKind.INTERVAL: "a fixed time after the end of the last run",
    TriggerKind.CRON: "the instants of a calendar expression, in a time zone",
    TriggerKind.DELAY: "once, at one instant",
    TriggerKind.WEBHOOK: "an HTTP call",
    TriggerKind.CHAT: "a message in a bound channel",
    TriggerKind.MANUAL: "a request by a person or a program",
}
_TARGETS = {
    TargetKind.AGENT: "an AI agent, run through its SDK or any command line",
    TargetKind.ENDPOINT: "one HTTP request",
    TargetKind.COMMAND: "a program, given as its argument list",
    TargetKind.CALLABLE: "a Python function",
}
_SOURCES = {
    Source.BASELINE_CRON: "the cron expression",
    Source.BASELINE_INTERVAL: "the interval, with its backoff",
    Source.AI_INTERVAL: "a hint for another interval",
    Source.AI_ONESHOT: "a one-shot hint",
    Source.CLAMPED_MIN: "`min_interval` moved it later",
    Source.CLAMPED_MAX: "`max_interval` moved it earlier",
    Source.PAUSED: "the schedule is paused; the next run is decided when the pause ends",
    Source.FIRST_RUN: "a new interval schedule is due immediately",
    Source.DELAY: "the time of a `delay` schedule",
    Source.CATCH_UP: "a missed beat that runs late",
    Source.RETRY: "another attempt at the same beat",
    Source.MANUAL: "a request by a person or a program",
    Source.WEBHOOK: "a webhook call",
    Source.CHAT: "a chat message",
    Source.RULE_TRIGGER: "a rule of another schedule",
    Source.BACKFILL: "a backfill of a past instant",
}
_STEPS = {
    StepKind.CANDIDATE: "a time that took part in the decision; one of them won",
    StepKind.SHADOWED: "a hint that is overridden by a hint of higher rank",
    StepKind.EXPIRED: "a hint that has expired",
    StepKind.JITTER: "moved by `jitter`, or by a queue of agents that are due at once",
    StepKind.CLAMP: "moved by `min_interval` or `max_interval`",
    StepKind.BOUND: "moved or ended by `starts_at`, `ends_at`, `max_runs`",
    StepKind.HOURS: "moved into the active hours",
    StepKind.PAUSE: "paused",
    StepKind.OFF: "disabled",
    StepKind.NOTE: "additional information",
}
_OUTCOMES = {
    BeatOutcome.PENDING: "due and waiting to start",
    BeatOutcome.RUNNING: "a run of the beat is active",
    BeatOutcome.RAN: "the beat ran; `result` has the status of its last run",
    BeatOutcome.SKIPPED: "the beat did not run because of the state or the policies of its schedule or target",
    BeatOutcome.MISSED: "no node was running when the beat was due, or the beat was too late",
    BeatOutcome.MERGED: "another beat ran instead",
}
_STATES = {
    DisplayState.RUNNING: "● a run is active",
    DisplayState.OK: "✓ the last run succeeded",
    DisplayState.LATE: "◷ due for longer than `late_after` and not started; the screen shows the reason",
    DisplayState.FAILING: "✗ the last run failed, and the interval grows with each failure; or it could not start",
    DisplayState.PAUSED: "‖ paused until a time or until it is resumed",
    DisplayState.DISABLED: "○ does not run until it is enabled",
    DisplayState.WAITING: "⚡ waits for an event",
    DisplayState.NEW: "· has never run",
    DisplayState.DONE: "▪ a one-shot schedule that has fired, or a schedule that has expired",
}
_RUNS = {
    RunStatus.RUNNING: "active",
    RunStatus.SUCCEEDED: "ended without an error",
    RunStatus.FAILED: "ended with an error; counts as a failure",
    RunStatus.TIMED_OUT: "exceeded its `timeout`; counts as a failure",
    RunStatus.CANCELLED: "cancelled by request",
    RunStatus.INTERRUPTED: "its node stopped or died, perhaps before it reached the target; not counted as a failure",
    RunStatus.SKIPPED: "skipped before it started",
}
_SKIPS = {
    SkipReason.UNSUPPORTED_TYPE: "this kind of trigger does not fire by time",
    SkipReason.DISABLED: "the schedule was disabled",
    SkipReason.ALREADY_RUNNING: "its previous run was still active, and `overlap: skip` is set",
    SkipReason.AT_CAPACITY: "the target was at capacity",
    SkipReason.NOT_DUE: "not due yet; returned by functions, never recorded",
    SkipReason.NO_WORK: "the work source had no item",
    SkipReason.PAUSED: "the schedule was paused",
    SkipReason.BUDGET_EXCEEDED: "the day's budget was used up",
    SkipReason.FILTERED: "the event did not match `when`",
    SkipReason.PRECHECK: "the `precheck` command exited with status 1",
    SkipReason.INACTIVE_HOURS: "outside `active_hours`",
    SkipReason.WORK_SOURCE_ERROR: "the work source failed; the run has a note that says why",
    SkipReason.CONFIG_ERROR: "the configuration of the schedule is invalid",
    SkipReason.EXPIRED: "past `ends_at` or `max_runs`, or its schedule was removed",
    SkipReason.TARGET_OFFLINE: "no live node has the label of `runs_on`",
    SkipReason.BY_REQUEST: "skipped with `herdbeat skip`, or cancelled while it was waiting",
    SkipReason.RATE_LIMITED: "only while pending: the account of the agent has reached its usage limit",
}
_MISSES = {
    MissedReason.SCHEDULER_DOWN: "no node was running",
    MissedReason.SLEPT: "the machine was asleep, or the process was stopped",
    MissedReason.CLOCK_JUMPED: "the system clock was set forward past it",
    MissedReason.TOO_LATE: "older than `max_late`",
    MissedReason.RESTORED: "active in a backup, or due between the backup and its restore",
}
_MERGES = {
    MergedReason.ALREADY_RUNNING: "an earlier beat is waiting for the active run (`overlap`) and runs instead",
    MergedReason.AT_CAPACITY: "an earlier beat is waiting for capacity and runs instead",
    MergedReason.ONCE: "a later beat runs instead of all missed ones (`catchup: once`)",
    MergedReason.CANCEL: "a later beat was due before it could start (`overlap: cancel`)",
    MergedReason.CATCHUP_MAX: "more than `catchup_max` beats were due at once; only the newest run",
    MergedReason.RATE_LIMITED: "an earlier beat is waiting for its account and runs instead",
}
_HINTS = {
    HintState.ACTIVE: "in effect",
    HintState.SHADOWED: "overridden by a hint of higher rank: human, then agent, rule, planner",
    HintState.EXPIRED: "its time limit has passed",
    HintState.CONSUMED: "a one-shot hint whose beat was due",
    HintState.REPLACED: "replaced by a newer interval hint of the same rank",
    HintState.SURPLUS: "not kept: only the earliest 20 one-shot hints of a rank are kept",
    HintState.CLEARED: "removed by request",
}
_CHANGES = {
    ChangeKind.ADD: "a target or schedule is new in the files",
    ChangeKind.EDIT: "its definition in the files changed",
    ChangeKind.REMOVE: "it was removed from the files; its history is kept",
    ChangeKind.PAUSE: "paused, until a time or until it is resumed",
    ChangeKind.RESUME: "resumed",
    ChangeKind.DISABLE: "disabled by a command",
    ChangeKind.ENABLE: "enabled by a command, or a one-shot schedule re-armed",
    ChangeKind.HINT: "a hint. A program that repeats the same hint leaves one entry",
    ChangeKind.CLEAR_HINTS: "hints were removed",
    ChangeKind.RESTORE_HINTS: "a change of hints was undone",
    ChangeKind.RESET: "the failure count was reset, or a quarantine ended",
    ChangeKind.SKIP: "the next beats are skipped by request",
    ChangeKind.CANCEL: "a run or a waiting beat was cancelled",
    ChangeKind.RETRY: "a beat was retried",
    ChangeKind.BACKFILL: "past instants were run",
    ChangeKind.RELEASE: "an account was released before its usage limit ended, or a work item was offered again",
    ChangeKind.ACK: "a run that needed a person, or an open condition, was acknowledged",
    ChangeKind.SNOOZE: "an open condition is reported later",
    ChangeKind.PLAN_PAUSE: "a pause was planned",
    ChangeKind.CANCEL_PAUSE: "a planned pause was cancelled, or ended early",
    ChangeKind.REJECT: "edited files are invalid, so they were not applied",
}


def page() -> str:
    return markdown.page(
        "Words",
        _INTRO,
        _set("Trigger kinds", "What fires a schedule; see [triggers](triggers.md).", TriggerKind, _TRIGGERS),
        _set("Target kinds", "What a schedule runs.", TargetKind, _TARGETS),
        _set("Sources", "Why a beat is due at its instant: the `source` of a decision.", Source, _SOURCES),
        _set("Steps of a trace", "The kind of each line in the trace of a decision.", StepKind, _STEPS),
        _set("Beat outcomes", "What happened to a due instant.", BeatOutcome, _OUTCOMES),
        _set("Schedule states", "The state of a schedule.", DisplayState, _STATES),
        _set("Run states", "The state of one attempt.", RunStatus, _RUNS),
        _set("Skip reasons", "Why a due beat did not run although a node was running.", SkipReason, _SKIPS),
        _set("Missed reasons", "Why no node ran the beat when it was due.", MissedReason, _MISSES),
        _set("Merged reasons", "Why one run covers several instants.", MergedReason, _MERGES),
        _set("Hint states", "The state of a hint; see `herdbeat hint --list`.", HintState, _HINTS),
        _set("Changes", "Entries of the change log; see `herdbeat changes`.", ChangeKind, _CHANGES),
    )


def _set(title: str, intro: str, words: type[Word], meanings: Mapping[Word, str]) -> str:
    rows = [(markdown.code(word), meanings[word]) for word in words]
    return markdown.section(title, intro, markdown.table(("word", "meaning"), rows))
