"""Checks of what agents need beside their CLI: bubblewrap, a container engine, and git for workspaces."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.isolation import IsolationSpec, IsolationType
from herdbeat.domain.target import AgentSpec
from herdbeat.domain.workspace import WorkspaceType
from herdbeat.service.maintenance.doctor import DoctorFinding, report_ok, report_problem

MIN_GIT_VERSION = (2, 17)
"""The first with `worktree remove`."""

_ENGINE_HINT = "Start the container engine, and let this user use it: docker info must work."


def check_isolation(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report each means of isolation that an agent asks for, once: whether a run could be isolated now."""
    wanted = _list_isolations(fleet)
    if not wanted:
        return
    from herdbeat.runners.agents.isolation.base import Isolation, IsolationUnavailable  # noqa: PLC0415 - only if used
    from herdbeat.runners.agents.isolation.bwrap import Bubblewrap  # noqa: PLC0415
    from herdbeat.runners.agents.isolation.docker import DockerContainers  # noqa: PLC0415

    for (kind, engine), (spec, names) in wanted.items():
        isolation: Isolation = Bubblewrap(path=environ.get("PATH"))
        if kind is IsolationType.DOCKER:
            isolation = DockerContainers(Path(fleet.home), environ)
        subject = engine or kind.value
        try:
            isolation.prepare(spec)
        except IsolationUnavailable as error:
            text = f"{error.reason.rstrip('.')}: {_count_agents(names)} will not run"
            yield report_problem(subject, text, error.hint or _ENGINE_HINT)
        else:
            yield report_ok(subject, f"can isolate {_count_agents(names)}")


def check_git(fleet: Fleet, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report the version of git if an agent works in worktrees."""
    names = _list_worktree_agents(fleet)
    if not names:
        return
    from herdbeat.runners.agents.git import GitError, run_git  # noqa: PLC0415 - only if used

    needed = ".".join(map(str, MIN_GIT_VERSION))
    fix = f"Install git {needed} or newer, or write workspace: shared."
    try:
        text = run_git(Path(fleet.home), "--version", environ=environ).removeprefix("git version ")
    except GitError as error:
        text = f"{str(error).partition('. ')[0].rstrip('.')}: {_count_agents(names)} will not run"
        yield report_problem("git", text, fix)
        return
    if _parse_version(text) < MIN_GIT_VERSION:
        yield report_problem("git", f"{text} is too old for worktrees: {_count_agents(names)} may not run", fix)
    else:
        yield report_ok("git", text)


def _list_isolations(
    fleet: Fleet,
) -> dict[tuple[IsolationType, str], tuple[IsolationSpec, list[str]]]:
    found: dict[tuple[IsolationType, str], tuple[IsolationSpec, list[str]]] = {}
    for name, spec in _iter_isolations(fleet):
        engine = (spec.container.engine or "") if spec.container is not None else ""
        _, names = found.setdefault((spec.type, engine), (spec, []))
        if name not in names:
            names.append(name)
    return found


def _iter_isolations(fleet: Fleet) -> Iterator[tuple[str, IsolationSpec]]:
    agents = {target.name: target.spec for target in fleet.targets if isinstance(target.spec, AgentSpec)}
    for name, agent in agents.items():
        if agent.isolation is not None:
            yield name, agent.isolation
    for schedule in fleet.schedules:
        if schedule.target in agents and schedule.isolation is not None:
            yield schedule.target, schedule.isolation


def _list_worktree_agents(fleet: Fleet) -> list[str]:
    agents = {target.name: target.spec for target in fleet.targets if isinstance(target.spec, AgentSpec)}
    own = [(name, spec.workspace) for name, spec in agents.items()]
    own += [(each.target, each.workspace) for each in fleet.schedules if each.target in agents]
    wanted = [name for name, workspace in own if workspace is not None and workspace.type is WorkspaceType.WORKTREE]
    return list(dict.fromkeys(wanted))


def _parse_version(text: str) -> tuple[int, int]:
    """Return the first two numbers of `2.39.5 (Apple Git-154)`; the newest if it has another form."""
    major, _, rest = text.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        return MIN_GIT_VERSION
    return int(major), int(minor)


def _count_agents(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} agents"
