"""Checks of agents: the version of each agent's CLI, and whether it is logged in."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec
from herdbeat.errors import describe_extra
from herdbeat.platform import default_signals
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem, report_warning

CHECK_TIMEOUT_S = 15.0
_MAX_VERSION_CHARS = 60


@dataclass(frozen=True, slots=True)
class AgentCli:
    """A CLI as one or more agents start it."""

    name: str
    program: str
    environment: Mapping[str, str]
    status_argv: tuple[str, ...]
    login_hint: str
    login_variables: tuple[str, ...]


def check_agents(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report version and login of each CLI, once. A program that is missing is reported with the other programs."""
    for cli, names in _list_clis(fleet, environ).values():
        version = _read_version(cli)
        if version is None:
            fix = f"Run it yourself: {cli.program} --version"
            yield report_problem(cli.name, f"{cli.program} does not print its version: {names} may not run", fix)
            continue
        login = _check_login(cli)
        if login:
            variables = " or ".join(cli.login_variables)
            fix = f"{cli.login_hint} Or set {variables}." if variables else cli.login_hint
            yield report_problem(cli.name, f"{version}; not logged in: {login}: {names} will fail", fix)
        else:
            yield report_ok(cli.name, version)
    yield from _warn_unconfined(fleet)
    yield from _check_own_tools(fleet)


def _check_own_tools(fleet: Fleet) -> Iterator[DoctorFinding]:
    """Agents run without our tools, too. They cannot schedule themselves then."""
    is_asked = any(isinstance(each.spec, AgentSpec) and each.spec.runtime != COMMAND_RUNTIME for each in fleet.targets)
    if is_asked and importlib.util.find_spec("mcp") is None:
        text = "not installed: agents get no tools of herdbeat, such as wake_me and report_result"
        yield report_warning("mcp", text, describe_extra("mcp"))


def _list_clis(fleet: Fleet, environ: Mapping[str, str]) -> dict[tuple[str, str], tuple[AgentCli, str]]:
    from herdbeat.runners.agents.presets import resolve_preset  # noqa: PLC0415 - only for fleets with agents
    from herdbeat.runners.process.runner import BASE_VARIABLES  # noqa: PLC0415

    found: dict[tuple[str, str], tuple[AgentCli, str]] = {}
    for target in fleet.targets:
        spec = target.spec
        if not isinstance(spec, AgentSpec) or spec.runtime in (COMMAND_RUNTIME, "fake"):
            continue
        preset = resolve_preset(spec)
        program = _locate(spec.program or preset.program, fleet.home, environ) if preset is not None else None
        if preset is None or program is None:
            continue
        passed = {*BASE_VARIABLES, *preset.login_variables, *preset.inherited_env, *spec.env}
        variables = {name: value for name, value in environ.items() if name in passed} | dict(spec.env_values)
        login, hint = preset.login_variables, preset.login_hint
        cli = AgentCli(preset.name, program, variables, preset.status_argv, hint, login)
        _, names = found.get((preset.name, program), (cli, ""))
        found[preset.name, program] = (cli, f"{names}, {target.name}" if names else target.name)
    return found


def _locate(program: str, home: str, environ: Mapping[str, str]) -> str | None:
    if os.sep not in program:
        return shutil.which(program, path=environ.get("PATH", os.defpath))
    path = Path(home) / program
    return str(path) if os.access(path, os.X_OK) else None


def _read_version(cli: AgentCli) -> str | None:
    result = _run(cli, ("--version",))
    if result is None or result.returncode != 0:
        return None
    line = next((each.strip() for each in result.stdout.splitlines() if each.strip()), "")
    return line[:_MAX_VERSION_CHARS] or "installed"


def _check_login(cli: AgentCli) -> str:
    """Return why the CLI is not logged in; empty if it is, or if it cannot be asked."""
    if not cli.status_argv or any(cli.environment.get(name) for name in cli.login_variables):
        return ""
    result = _run(cli, cli.status_argv)
    if result is None or result.returncode == 0:
        return ""
    words = (result.stderr or result.stdout).strip().splitlines()
    return words[-1][:200] if words and not words[-1].startswith(("{", "}")) else "it says so itself"


def _run(cli: AgentCli, argv: Sequence[str]) -> "subprocess.CompletedProcess[str] | None":
    try:
        with default_signals() as preexec_fn:
            return subprocess.run(  # noqa: S603 - the program of the fleet file
                [cli.program, *argv],
                env=dict(cli.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CHECK_TIMEOUT_S,
                check=False,
                preexec_fn=preexec_fn,
            )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _warn_unconfined(fleet: Fleet) -> Iterator[DoctorFinding]:
    """Say that an agent without isolation may do whatever this user may do."""
    names = [
        target.name
        for target in fleet.targets
        if isinstance(target.spec, AgentSpec)
        and target.spec.runtime not in (COMMAND_RUNTIME, "fake")
        and target.spec.isolation is None
        and not (target.spec.docker or {}).get("enabled")
    ]
    if names:
        listed = names[0] if len(names) == 1 else f"{len(names)} agents"
        text = f"{listed} can do whatever this user can do: read files, use its logins, change other schedules"
        yield report_warning("isolation", text, "Set isolation: bwrap, or docker: { enabled: true }.")
