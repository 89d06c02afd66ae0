"""Runs: the claim with which a node starts one attempt at a beat, and the outcome with which it ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from herdbeat.domain.agent_run import AgentReport
from herdbeat.domain.decision import Source
from herdbeat.domain.run_status import RunStatus as RunStatus  # noqa: PLC0414 -- a part of this module for all others
from herdbeat.domain.timing import ScheduleSpec


class Claim(NamedTuple):
    """A node's exclusive right to run a beat, with all that running it and recording its outcome needs."""

    run_id: int
    beat_id: int
    schedule_id: int
    target_id: int
    label: str
    dedup_id: str
    due_at: datetime
    source: Source
    attempt: int
    revision: int
    plan: ScheduleSpec
    fence: int = 0


MISSING_PROGRAM_ERRORS = ("There is no program ", "There is no file ")
"""How the error of a run begins whose program is not installed: no attempt can succeed before somebody installs it."""


def is_program_missing(error: str | None) -> bool:
    return error is not None and error.startswith(MISSING_PROGRAM_ERRORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, as reported by its runner.

    `skip` is the reason of a run with status SKIPPED. `note` is a remark by herdbeat itself, such as a broken precheck.
    `agent` is what only the run of an agent has. `workspace` is the branch on which the run has left changes.
    `not_before` is when the target may be asked again. A response that `is_response_too_large` is not kept, and rules
    cannot read it.
    """

    status: RunStatus
    code: int | None = None
    error: str = ""
    output: str = ""
    response: object = None
    summary: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    session: str = ""
    skip: str = ""
    note: str = ""
    agent: AgentReport | None = None
    workspace: str = ""
    not_before: datetime | None = None
    is_response_too_large: bool = False

    @property
    def was_refused(self) -> bool:
        """True if a usage limit ended the run: that is no failure of its schedule."""
        return self.agent is not None and self.status.is_failure and self.agent.limit_reached


def add_report(outcome: Outcome, report: AgentReport | None) -> Outcome:
    """Return the outcome with what an agent has reported, however its run ended."""
    if report is None:
        return outcome
    outcome = replace(outcome, agent=report, session=report.session_id, usage=report.usage)
    told = report.told
    if told is None:
        return outcome
    response = dict(told.metrics) if told.metrics else outcome.response
    return replace(outcome, response=response, summary=told.summary or outcome.summary)
