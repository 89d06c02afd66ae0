"""Glyph, word and class of every state: one state, one glyph, one word, one colour, as in the terminal."""

from typing import NamedTuple

from markupsafe import Markup

from herdbeat.dashboard.charts import MarkState
from herdbeat.domain.beat import BeatOutcome
from herdbeat.domain.planner import SessionStatus
from herdbeat.domain.run import RunStatus
from herdbeat.service.queries.attention import AttentionCause
from herdbeat.service.queries.schedule_state import DisplayState

ICON_SHAPES = {
    "✓": '<path d="M4.5 8.3l2.3 2.3 4.7-5"/>',
    "✗": '<path d="M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"/>',
    "●": '<circle class="solid" cx="8" cy="8" r="3.4"/>',
    "◷": '<path d="M8 4.4V8l2.3 1.7"/>',
    "‖": '<path d="M6.3 5.3v5.4M9.7 5.3v5.4"/>',
    "○": '<path d="M5.2 10.8l5.6-5.6"/>',
    "⚡": '<path d="M8.7 4L5.6 8.6H8L7.3 12l3.1-4.6H8z"/>',
    "·": '<circle class="solid" cx="8" cy="8" r="1.8"/>',
    "▪": '<path class="solid" d="M5.3 5.3h5.4v5.4H5.3z"/>',
    "!": '<path d="M8 4.4v4.2M8 11.4v.1"/>',
    "–": '<path d="M5 8h6"/>',
    "$": (
        '<path d="M10.2 6c-.5-.8-1.3-1.1-2.2-1.1C6.8 4.9 6 5.5 6 6.4c0 2.1 4.3 1.1 4.3 3.2 '
        '0 1-.9 1.6-2.3 1.6-1 0-1.9-.4-2.4-1.2M8 3.6v8.8"/>'
    ),
}
"""The drawing of each glyph: fonts draw the characters in different sizes, or not at all."""


class StateLabel(NamedTuple):
    glyph: str
    word: str
    style: str

    @property
    def icon(self) -> Markup:
        shape = ICON_SHAPES[self.glyph]
        return Markup(f'<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>')  # noqa: S704 -- ours


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

SESSION_LABELS = {
    SessionStatus.COMPLETED: StateLabel("✓", "completed", "ok"),
    SessionStatus.INCOMPLETE: StateLabel("◷", "incomplete", "late"),
    SessionStatus.FAILED: StateLabel("✗", "failed", "failing"),
    SessionStatus.SKIPPED: StateLabel("–", "skipped", "disabled"),
}

NODE_LABELS = {
    "alive": StateLabel("✓", "alive", "ok"),
    "left": StateLabel("○", "left", "disabled"),
    "dead": StateLabel("✗", "dead", "failing"),
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


def build_beat_label(outcome: BeatOutcome, status: RunStatus | None) -> StateLabel:
    if status is not None and outcome is BeatOutcome.RAN:
        return STATUS_LABELS[status]
    return OUTCOME_LABELS[outcome]
