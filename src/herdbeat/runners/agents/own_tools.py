"""Our own MCP server for a run of an agent: how its CLI reaches the server, and what the run reported through it.

The CLI of an agent that nothing confines starts the server itself. One that is isolated reaches it through the server
of the fleet, if it has a network: the control socket is never shown to it.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from herdbeat.domain.agent_run import AgentReport, FinishReason
from herdbeat.domain.agent_tools import RunReport
from herdbeat.domain.isolation import ContainerNetwork, IsolationSpec, IsolationType
from herdbeat.domain.run import Outcome, RunStatus, add_report

RUN_TOKEN_VARIABLE = "HERDBEAT_RUN_TOKEN"  # noqa: S105 -- the name of a variable


class RunGrant(NamedTuple):
    """What a run gets: the token of its tools, and the note of the wake that it is the answer to."""

    token: str
    note: str


class ToolLedger(Protocol):
    """The ledger, as far as the tools of a run need it."""

    async def grant(self, run_id: int) -> RunGrant:
        """Return the token of an active run. Raises StoreUnavailable."""

    async def read_report(self, run_id: int) -> RunReport | None:
        """Return what the agent has reported; None if it has not. Raises StoreUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTools:
    """How runs of this node reach our tools. `state_dir` is None for a ledger in a database, whose URL is a secret.

    `url` is the server of the fleet for programs on this machine, `public_url` the one for everybody; empty if there is
    none.
    """

    ledger: ToolLedger
    state_dir: Path | None = None
    url: str = ""
    public_url: str = ""

    def describe_server(self, isolation: IsolationSpec | None, token: str) -> "OwnServer":
        """Return the server for a run. One that cannot be reached has a reason instead."""
        if isolation is None and self.state_dir is not None:
            command = {"command": sys.executable, "args": ["-P", "-m", "herdbeat.mcp", "--state", str(self.state_dir)]}
            variables = {RUN_TOKEN_VARIABLE: token}
            return OwnServer(server={**command, "env": variables, "env_vars": [RUN_TOKEN_VARIABLE]})
        if isolation is not None and not isolation.has_network:
            return OwnServer(obstacle="the run has no network")
        url = self.public_url if _is_behind_bridge(isolation) else self.url or self.public_url
        if not url:
            return OwnServer(obstacle="the fleet has no server that the run could reach")
        headers = {"Authorization": f"Bearer {token}"}
        return OwnServer(
            server={"url": f"{url.rstrip('/')}/mcp", "headers": headers, "bearer_token_env_var": RUN_TOKEN_VARIABLE}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnServer:
    """Our MCP server in the words of an MCP configuration; or why a run cannot be offered it."""

    server: Mapping[str, object] | None = field(default=None, repr=False)
    obstacle: str = ""


def _is_behind_bridge(isolation: IsolationSpec | None) -> bool:
    """Whether loopback is the run's own: in a container, unless it has the network of the machine."""
    if isolation is None or isolation.type is not IsolationType.DOCKER:
        return False
    return isolation.container is None or isolation.container.network is not ContainerNetwork.HOST


def add_note(prompt: str, note: str) -> str:
    """Return the prompt with the agent's own note in front of it."""
    return f"Your own note, from when you asked to be woken now: {note}\n\n{prompt}" if note else prompt


def apply_report(outcome: Outcome, run_report: RunReport | None) -> Outcome:
    """Return the outcome with what the agent has reported. A failure that its CLI reports remains one."""
    if run_report is None or outcome.agent is None:
        return outcome
    report = merge_run_report(outcome.agent, run_report)
    status = outcome.status
    if run_report.ok is False and outcome.agent.ok:
        status = RunStatus.FAILED
    error = outcome.error or ("" if report.ok else report.message)
    return add_report(replace(outcome, status=status, error=error), report)


def merge_run_report(report: AgentReport, run_report: RunReport) -> AgentReport:
    """Return the report of the CLI with what the agent has said itself."""
    needs = (*((run_report.needs_you,) if run_report.needs_you else ()), *report.needs_you)
    if run_report.ok is False and report.ok:
        message = run_report.summary or "The agent reported that it has failed."
        report = replace(report, ok=False, reason=FinishReason.AGENT_ERROR, message=message)
    is_quiet = (report.quiet or run_report.quiet) and report.ok and not needs
    return replace(report, needs_you=needs, quiet=is_quiet, told=run_report)
