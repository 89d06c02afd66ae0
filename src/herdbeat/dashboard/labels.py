"""Glyph, word and class of every state: one state, one glyph, one word, one colour, as in the terminal."""

from typing import NamedTuple

from herdbeat.dashboard.charts import MarkState
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.run import RunStatus
from herdbeat.service.queries.attention import AttentionCause
from herdbeat.service.queries.schedule_state import DisplayState


class StateLabel(NamedTuple):
    glyph: str
    word: str
    style: str


STATE_LABELS = {
    DisplayState.RUNNING: StateLabel("●", "running", "running"),
    DisplayState.OK: StateLabel("✓", "ok", "ok"),
    DisplayState.LATE: StateLabel("◷", "late", "late"),
    DisplayState.FAILING: StateLabel("✗", "failing", "failing"),
    DisplayState.PAUSED: StateLabel("‖", "paused", "paused"),
    DisplayState.DISABLED: StateLabel("○", "disabled", "disabled"),
    DisplayState.WAITING: StateLabel("⚡", "waiting", "waiting"),
    DisplayState.NEW: StateLabel("·", "new", "new"),
    DisplayState.DONE: StateLabel("▪", "done", "done"),
}

STATUS_LABELS = {
    RunStatus.RUNNING: StateLabel("●", "running", "running"),
    RunStatus.SUCCEEDED: StateLabel("✓", "ok", "ok"),
    RunStatus.FAILED: StateLabel("✗", "failed", "failing"),
    RunStatus.TIMED_OUT: StateLabel("✗", "timed out", "failing"),
    RunStatus.CANCELLED: StateLabel("–", "cancelled", "late"),
    RunStatus.INTERRUPTED: StateLabel("–", "interrupted", "late"),
    RunStatus.SKIPPED: StateLabel("–", "skipped", "disabled"),
}

OUTCOME_LABELS = {
    BeatOutcome.PENDING: StateLabel("◷", "waiting", "late"),
    BeatOutcome.RUNNING: StateLabel("●", "running", "running"),
    BeatOutcome.RAN: StateLabel("✓", "ran", "ok"),
    BeatOutcome.SKIPPED: StateLabel("–", "skipped", "disabled"),
    BeatOutcome.MISSED: StateLabel("·", "missed", "missed"),
    BeatOutcome.MERGED: StateLabel("–", "merged", "disabled"),
}

CAUSE_LABELS = {
    AttentionCause.NEEDS_YOU: StateLabel("!", "needs you", "late"),
    AttentionCause.FAILING: StateLabel("✗", "failing", "failing"),
    AttentionCause.LATE: StateLabel("◷", "late", "late"),
    AttentionCause.NEVER_RUNS: StateLabel("○", "will not run", "disabled"),
    AttentionCause.MISSED: StateLabel("·", "missed", "missed"),
    AttentionCause.BUDGET: StateLabel("$", "budget", "late"),
}

_STATUS_MARKS = {
    RunStatus.RUNNING: MarkState.RUNNING,
    RunStatus.SUCCEEDED: MarkState.OK,
    RunStatus.FAILED: MarkState.FAILED,
    RunStatus.TIMED_OUT: MarkState.FAILED,
    RunStatus.CANCELLED: MarkState.WAITING,
    RunStatus.INTERRUPTED: MarkState.WAITING,
    RunStatus.SKIPPED: MarkState.SKIPPED,
}
_OUTCOME_MARKS = {
    BeatOutcome.PENDING: MarkState.WAITING,
    BeatOutcome.RUNNING: MarkState.RUNNING,
    BeatOutcome.RAN: MarkState.OK,
    BeatOutcome.SKIPPED: MarkState.SKIPPED,
    BeatOutcome.MERGED: MarkState.SKIPPED,
    BeatOutcome.MISSED: MarkState.MISSED,
}


def mark_of_status(status: RunStatus) -> MarkState:
    return _STATUS_MARKS[status]


def mark_of_beat(outcome: BeatOutcome, status: RunStatus | None) -> MarkState:
    """Return how a beat is painted: like its last run, if it had one."""
    if status is not None and outcome in (BeatOutcome.RAN, BeatOutcome.RUNNING):
        return _STATUS_MARKS[status]
    return _OUTCOME_MARKS[outcome]


def label_of_beat(outcome: BeatOutcome, status: RunStatus | None) -> StateLabel:
    if status is not None and outcome is BeatOutcome.RAN:
        return STATUS_LABELS[status]
    return OUTCOME_LABELS[outcome]
