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
These are the words of files, JSON and screens. Each has one meaning everywhere. The
[glossary](../glossary.md) explains the nouns; the words for beats and runs are those the engine will record.
"""

_TRIGGERS = {
    TriggerKind.INTERVAL: "a fixed time after the end of the last run",
    TriggerKind.CRON: "the instants of a calendar expression, in a time zone",
    TriggerKind.DELAY: "once, at one instant",
    TriggerKind.WEBHOOK: "an HTTP call",
    TriggerKind.CHAT: "a message in a bound channel",
    TriggerKind.MANUAL: "a person, or a program that asks",
}
_TARGETS = {
    TargetKind.AGENT: "an AI agent, run through its SDK or any command line",
    TargetKind.ENDPOINT: "one HTTP request",
    TargetKind.COMMAND: "a program, by its argument list",
    TargetKind.CALLABLE: "a Python function",
}
_SOURCES = {
    Source.BASELINE_CRON: "the cron expression, and nothing else had a say",
    Source.BASELINE_INTERVAL: "the interval, with its backoff",
    Source.AI_INTERVAL: "a hint asked for another pace",
    Source.AI_ONESHOT: "a hint asked for one moment",
    Source.CLAMPED_MIN: "`min_interval` moved it later",
    Source.CLAMPED_MAX: "`max_interval` moved it earlier",
    Source.PAUSED: "a pause holds it; it is decided again at the pause's end",
    Source.FIRST_RUN: "an interval that never ran is due at once",
    Source.DELAY: "the moment of a one-shot schedule",
    Source.CATCH_UP: "it was missed while nothing ran, and is made up for",
    Source.RETRY: "another attempt at the same beat",
    Source.MANUAL: "a person asked for it",
    Source.WEBHOOK: "a call came in",
    Source.CHAT: "a message came in",
    Source.RULE_TRIGGER: "a rule of another schedule asked for it",
    Source.BACKFILL: "a past instant was asked for",
}
_STEPS = {
    StepKind.CANDIDATE: "a time that took part; one of them won",
    StepKind.SHADOWED: "a hint that a stronger one keeps out",
    StepKind.EXPIRED: "a hint that is over",
    StepKind.JITTER: "moved within its own gap, or to its place in a queue, to spread a herd",
    StepKind.CLAMP: "moved by `min_interval` or `max_interval`",
    StepKind.BOUND: "moved or ended by `starts_at`, `ends_at`, `max_runs`",
    StepKind.HOURS: "moved into the active hours",
    StepKind.PAUSE: "held by a pause",
    StepKind.OFF: "not enabled",
    StepKind.NOTE: "something worth knowing",
}
_OUTCOMES = {
    BeatOutcome.PENDING: "due, and waiting for room",
    BeatOutcome.RUNNING: "a run of it is going on",
    BeatOutcome.RAN: "it was run, however the run ended",
    BeatOutcome.SKIPPED: "it was not run, for a reason that lies in the schedule or its target",
    BeatOutcome.MISSED: "nobody was there to run it, or it came too late",
    BeatOutcome.MERGED: "another beat stands for it",
}
_STATES = {
    DisplayState.RUNNING: "● a run is in progress",
    DisplayState.OK: "✓ the last run went well, and the next is planned",
    DisplayState.LATE: "◷ due for longer than `late_after`, and not started; the reason stands beside it",
    DisplayState.FAILING: "✗ the last run failed; an interval waits longer and longer",
    DisplayState.PAUSED: "‖ held until a time, or until somebody resumes it",
    DisplayState.DISABLED: "○ off until it is enabled",
    DisplayState.WAITING: "⚡ only an event fires it",
    DisplayState.NEW: "· it never ran",
    DisplayState.DONE: "▪ a one-shot that has fired, or a schedule whose life is over",
}
_RUNS = {
    RunStatus.RUNNING: "going on",
    RunStatus.SUCCEEDED: "ended well",
    RunStatus.FAILED: "ended badly; counts as a failure",
    RunStatus.TIMED_OUT: "stopped at its deadline; counts as a failure",
    RunStatus.CANCELLED: "stopped by request",
    RunStatus.INTERRUPTED: "cut off because its node stopped; not a failure",
    RunStatus.SKIPPED: "declined before it started",
}
_SKIPS = {
    SkipReason.UNSUPPORTED_TYPE: "the clock does not fire this kind of trigger",
    SkipReason.DISABLED: "the schedule is not enabled",
    SkipReason.ALREADY_RUNNING: "its previous run was still going, and `overlap: skip` is set",
    SkipReason.AT_CAPACITY: "the target had no room",
    SkipReason.NOT_DUE: "asked too early; an answer, never a record",
    SkipReason.NO_WORK: "the work source had no item",
    SkipReason.PAUSED: "the schedule was paused",
    SkipReason.BUDGET_EXCEEDED: "the day's budget was used up",
    SkipReason.FILTERED: "the event did not fit `when`",
    SkipReason.PRECHECK: "the `precheck` command declined",
    SkipReason.INACTIVE_HOURS: "outside `active_hours`",
    SkipReason.WORK_SOURCE_ERROR: "the work source failed, or this version does not serve it",
    SkipReason.CONFIG_ERROR: "the schedule cannot work as it is configured",
    SkipReason.EXPIRED: "past `ends_at` or `max_runs`, or its schedule was removed",
    SkipReason.TARGET_OFFLINE: "no live node has the label of `runs_on`",
    SkipReason.BY_REQUEST: "somebody asked to let it pass, or called it off while it waited",
}
_MISSES = {
    MissedReason.SCHEDULER_DOWN: "no node was running",
    MissedReason.SLEPT: "the machine was asleep, or the process was stopped",
    MissedReason.CLOCK_JUMPED: "the clock was set past it",
    MissedReason.TOO_LATE: "older than `max_late`",
    MissedReason.RESTORED: "open in a backup, or due between the backup and its restore",
}
_MERGES = {
    MergedReason.ALREADY_RUNNING: "a beat before it waits until its run is over (`overlap`), and runs for it",
    MergedReason.AT_CAPACITY: "a beat before it waits for room at the target, and runs for it",
    MergedReason.ONCE: "a later one runs for all that was missed (`catchup: once`)",
    MergedReason.CANCEL: "a later one was due before it could start (`overlap: cancel`)",
    MergedReason.CATCHUP_MAX: "more than `catchup_max` were due at once; the newest run",
}
_HINTS = {
    HintState.ACTIVE: "it counts",
    HintState.SHADOWED: "a hint of a higher rank keeps it out: human before agent before rule before planner",
    HintState.EXPIRED: "its time was over",
    HintState.CONSUMED: "one for a moment, whose beat has come",
    HintState.REPLACED: "a newer pace of the same rank has taken its place",
    HintState.SURPLUS: "one for a moment too many: the earliest 20 of a rank are kept",
    HintState.CLEARED: "somebody has ended it",
}
_CHANGES = {
    ChangeKind.ADD: "a target or schedule is new in the files",
    ChangeKind.EDIT: "the files say something else of it",
    ChangeKind.REMOVE: "it is gone from the files; its history stays",
    ChangeKind.PAUSE: "held, for a while or until somebody resumes",
    ChangeKind.RESUME: "a pause was lifted",
    ChangeKind.DISABLE: "switched off by hand",
    ChangeKind.ENABLE: "switched on again, or a one-shot armed again",
    ChangeKind.HINT: "another pace or moment for a while. A machine that repeats its wish leaves one row",
    ChangeKind.CLEAR_HINTS: "hints were ended",
    ChangeKind.RESET: "failures were forgotten, a quarantine was left",
    ChangeKind.SKIP: "the next beats are let pass",
    ChangeKind.CANCEL: "a run was stopped, or a waiting beat called off",
    ChangeKind.RETRY: "a beat is run again",
    ChangeKind.BACKFILL: "past instants are run",
}


def page() -> str:
    return markdown.page(
        "Words",
        _INTRO,
        _set("Trigger kinds", "What fires a schedule; see [triggers](triggers.md).", TriggerKind, _TRIGGERS),
        _set("Target kinds", "What is run.", TargetKind, _TARGETS),
        _set("Sources", "Why an instant is when it is: the `source` of a decision.", Source, _SOURCES),
        _set("Steps of a trace", "What one line of a decision's trace is about.", StepKind, _STEPS),
        _set("Beat outcomes", "What became of a due instant.", BeatOutcome, _OUTCOMES),
        _set("Schedule states", "How a schedule stands, in one word.", DisplayState, _STATES),
        _set("Run states", "How one attempt stands or ended.", RunStatus, _RUNS),
        _set("Skip reasons", "Why a due beat did not run although a node was there.", SkipReason, _SKIPS),
        _set("Missed reasons", "Why nobody was there when it was due.", MissedReason, _MISSES),
        _set("Merged reasons", "Why one run stands for several instants.", MergedReason, _MERGES),
        _set("Hint states", "How a hint stands or ended; see `herdbeat hint --list`.", HintState, _HINTS),
        _set("Changes", "What is in the record; see `herdbeat changes`.", ChangeKind, _CHANGES),
    )


def _set(title: str, intro: str, words: type[Word], meanings: Mapping[Word, str]) -> str:
    rows = [(markdown.code(word), meanings[word]) for word in words]
    return markdown.section(title, intro, markdown.table(("word", "meaning"), rows))
