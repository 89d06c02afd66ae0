"""Surrounds an agent's program with what its target asks for: first a workspace of its own, then an isolation.

What was asked for and is not available stops the run. It is never run without.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import which
from typing import TypeVar

from herdbeat.clock import Clock
from herdbeat.domain.ids import format_short_id
from herdbeat.domain.isolation import Access, ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.run import Outcome
from herdbeat.domain.target import COMMAND_RUNTIME, AgentSpec
from herdbeat.domain.workspace import WorkspaceSpec, WorkspaceType
from herdbeat.runners.agents.isolation.base import (
    AGENT_HOME,
    Isolation,
    IsolationUnavailable,
    Mount,
    SandboxedProgram,
    SandboxRequest,
)
from herdbeat.runners.agents.isolation.bwrap import PRIVATE_SYSTEM_PATHS, SYSTEM_FOLDERS, Bubblewrap
from herdbeat.runners.agents.isolation.docker import DockerContainers, volume_sources
from herdbeat.runners.agents.isolation.visibility import find_credentials, find_masks, find_program
from herdbeat.runners.agents.workspace import (
    OpenWorkspace,
    WorkspaceFailed,
    WorkspaceResult,
    WorkspaceUnusable,
    find_repository,
    open_workspaces,
)
from herdbeat.runners.base import Job
from herdbeat.runners.process.program import Program, SpawnFailed, effective_isolation, effective_workspace
from herdbeat.runners.process.runner import PROMPTS_FOLDER, build_child_environment
from herdbeat.runners.process.supervise import complete
from herdbeat.runners.run_log import RunLog
from herdbeat.runners.settings import RunnerSettings, agent_home, data_folder
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a run works: its working directory, in the folder that its program may see."""

    folder: str
    root: str


class AgentPreparer:
    """Prepares the programs of agents on one node. `node` is the mark of the node on its processes."""

    def __init__(self, settings: RunnerSettings, node: str, clock: Clock) -> None:
        self._settings = settings
        self._node = node
        self._clock = clock
        self._workspaces = open_workspaces(settings.state_dir, settings.environ)
        self._docker = DockerContainers(settings.state_dir, settings.environ)
        self._bwrap = Bubblewrap(resolver=os.path.realpath("/etc/resolv.conf"), path=settings.environ.get("PATH"))
        self._results: dict[int, WorkspaceResult] = {}

    def pop_result(self, run_id: int) -> WorkspaceResult | None:
        """Return the result of the workspace of a run, once; None if it had none."""
        return self._results.pop(run_id, None)

    def find_obstacle(self, job: Job) -> Outcome | None:
        """Return why an agent cannot start now: its folder, repository, isolation or program is missing. Blocks.

        None if none of them is; the start itself may still fail.
        """
        try:
            self._require_parts(job)
        except (SpawnFailed, WorkspaceUnusable, IsolationUnavailable) as error:
            return SpawnFailed(str(error), is_config_error=True).to_outcome()
        return None

    def _require_parts(self, job: Job) -> None:
        spec, isolation = job.target.spec, effective_isolation(job)
        assert isinstance(spec, AgentSpec)
        folder = Path(self._settings.folder(spec.working_directory))
        if not folder.is_dir():
            raise SpawnFailed(f'The working directory "{folder}" does not exist. Create it.')
        if effective_workspace(job).type is WorkspaceType.WORKTREE:
            find_repository(folder)
        if isolation is not None:
            self._isolation_of(isolation).prepare(isolation)
        if isolation is None or isolation.type is IsolationType.BWRAP:  # a container has the programs of its image
            self._require_program(spec)

    def _require_program(self, spec: AgentSpec) -> None:
        """Raise SpawnFailed if the program of an agent is not installed. One with a path is looked at by its start."""
        from herdbeat.runners.agents.presets import resolve_preset  # noqa: PLC0415 - a fleet without agents needs none

        preset = resolve_preset(spec) if spec.runtime != COMMAND_RUNTIME else None
        program = spec.program or (preset.program if preset else "".join(spec.command[:1]))
        path = spec.env_values.get("PATH", self._settings.environ.get("PATH"))
        if program and os.sep not in program and which(program, path=path) is None:
            hint = preset.install_hint if preset else ""
            message = f'There is no program "{program}" on the PATH. {hint or "Install it, or write its full path."}'
            raise SpawnFailed(message)

    def _isolation_of(self, spec: IsolationSpec) -> Isolation:
        return self._docker if spec.type is IsolationType.DOCKER else self._bwrap

    def end_leftovers(self) -> int:
        """End the containers that a killed node left; return how many there were. Blocks."""
        return self._docker.end_leftovers(self._settings.store_id)

    @asynccontextmanager
    async def prepare(self, job: Job, program: Program, run_log: RunLog) -> AsyncIterator[Program]:
        workspace, isolation = effective_workspace(job), effective_isolation(job)
        async with AsyncExitStack() as stack:
            place = _Place(program.folder, program.folder)
            if workspace.type is WorkspaceType.WORKTREE:
                opened = await self._open_workspace(job, workspace, Path(program.folder), isolation)
                stack.push_async_callback(self._close_workspace, job, opened, run_log)
                run_log.note(f"workspace {opened.workspace.path}, branch {opened.workspace.branch}")
                place = _Place(str(opened.folder), opened.workspace.path)
                program = replace(program, folder=place.folder)
            if isolation is not None:
                program = await self._confine(job, program, place, isolation, stack, run_log)
            yield program

    # --- workspaces

    async def _open_workspace(
        self, job: Job, spec: WorkspaceSpec, folder: Path, isolation: IsolationSpec | None
    ) -> OpenWorkspace:
        def create() -> OpenWorkspace:
            return self._workspaces.create(
                spec,
                folder,
                target=job.target.name,
                run=format_short_id(job.claim.run_id),
                now=self._clock.now(),
                is_isolated=isolation is not None,
            )

        try:
            return await _call_or_undo(create, lambda opened: opened.close(self._clock.now()))
        except WorkspaceUnusable as error:
            raise SpawnFailed(str(error), is_config_error=True) from error
        except WorkspaceFailed as error:
            raise SpawnFailed(str(error)) from error

    async def _close_workspace(self, job: Job, opened: OpenWorkspace, run_log: RunLog) -> None:
        async def close() -> None:
            result = await call_in_thread(opened.close, self._clock.now())
            self._results[job.claim.run_id] = result
            run_log.note(_describe_result(result))

        # Also after a cancellation, however often: what the run has changed must not be lost.
        await complete(close())

    # --- isolation

    async def _confine(
        self,
        job: Job,
        program: Program,
        place: _Place,
        spec: IsolationSpec,
        stack: AsyncExitStack,
        run_log: RunLog,
    ) -> Program:
        isolation = self._isolation_of(spec)
        try:
            sandboxed = await call_in_thread(self._wrap, isolation, job, program, place, spec)
        except IsolationUnavailable as error:
            raise SpawnFailed(str(error), is_config_error=True) from error
        except OSError as error:
            raise SpawnFailed(f"The isolation could not be prepared: {error}") from error

        async def end() -> None:
            remark = await call_in_thread(isolation.end, sandboxed)
            if remark:
                run_log.note(remark)
                log.warning("isolated run=%s %s", format_short_id(job.claim.run_id), remark)

        async def end_always() -> None:
            await complete(end())

        stack.push_async_callback(end_always)
        run_log.note(f"isolated by {spec.type}, network {'on' if spec.has_network else 'off'}")
        return replace(
            program,
            argv=sandboxed.argv,
            folder=sandboxed.folder,
            environment=sandboxed.environment,
            is_sandboxed=spec.type is IsolationType.BWRAP,
            explain_exit=partial(isolation.explain_exit, sandboxed),
        )

    def _wrap(
        self, isolation: Isolation, job: Job, program: Program, place: _Place, spec: IsolationSpec
    ) -> SandboxedProgram:
        isolation.prepare(spec)
        request = self._build_request(job, program, place, spec)
        for login in request.credentials:
            # Made here, with this user as its owner: an engine would make what it mounts on as root.
            inside = Path(request.home) / Path(login.place).relative_to(AGENT_HOME)
            inside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            inside.touch(mode=0o600)
        sandboxed = isolation.wrap(request)
        if isinstance(isolation, DockerContainers):
            isolation.start(sandboxed)
        return sandboxed

    def _build_request(self, job: Job, program: Program, place: _Place, spec: IsolationSpec) -> SandboxRequest:
        settings, agent = self._settings, job.target.spec
        assert isinstance(agent, AgentSpec)
        environ, is_container = settings.environ, spec.type is IsolationType.DOCKER
        root, folder = os.path.realpath(place.root), os.path.realpath(place.folder)
        if not Path(folder).is_dir():
            raise IsolationUnavailable(f'The working directory "{folder}" does not exist. Create it.')
        mounts = self._extra_mounts(agent, spec)
        settings.state_dir.mkdir(parents=True, exist_ok=True)  # what does not exist yet could not be masked
        hidden = [os.path.realpath(path) for path in self._hidden_paths()]
        argv = program.argv
        programs: tuple[Mount, ...] = ()
        environment = build_child_environment(job, environ, self._node, program)
        if not is_container:  # a container has the programs of its image
            found = find_program(argv, environment, hidden, SYSTEM_FOLDERS)
            argv, programs = found.argv, found.mounts
        visible = [root, *(mount.source for mount in mounts)]
        if is_container:
            visible += volume_sources(spec.container or ContainerSettings(), folder)
        else:
            visible += [*SYSTEM_FOLDERS, *(mount.source for mount in programs)]
        return SandboxRequest(
            run=format_short_id(job.claim.run_id),
            target=job.target.name,
            node=self._node,
            store_id=settings.store_id,
            spec=spec,
            argv=argv,
            environment=environment,
            folder=folder,
            workspace=root,
            home=self._agent_home(job.target.name),
            programs=programs,
            mounts=mounts,
            masks=find_masks(visible, hidden, environ),
            late_mounts=self._run_files(job, program),
            credentials=find_credentials(agent.cli, environ, spec.credentials),
        )

    def _extra_mounts(self, agent: AgentSpec, spec: IsolationSpec) -> tuple[Mount, ...]:
        wanted = [(path, Access.READ_ONLY) for path in spec.read_only]
        wanted += [(path, Access.READ_WRITE) for path in spec.read_write]
        wanted += [(path, spec.workspace) for path in agent.extra_dirs]
        mounts = []
        for path, access in wanted:
            real = os.path.realpath(self._settings.folder(str(Path(path).expanduser())))
            if not Path(real).exists():
                raise IsolationUnavailable(f'The folder "{real}" does not exist. Create it, or correct isolation.')
            mounts.append(Mount(source=real, access=access))
        return tuple(mounts)

    def _hidden_paths(self) -> list[str]:
        """Return what no isolated agent may see, wherever it lies."""
        settings, environ = self._settings, self._settings.environ
        places = [str(settings.state_dir), *map(str, settings.fleet_files), *PRIVATE_SYSTEM_PATHS]
        places += [environ[name] for name in ("HOME", "XDG_RUNTIME_DIR") if environ.get(name)]
        places += [str(self._workspaces.root.parent), str(data_folder(environ))]
        return places

    def _run_files(self, job: Job, program: Program) -> tuple[Mount, ...]:
        """Return the files of this run in the state directory, which is hidden otherwise."""
        prompt = self._settings.state_dir / PROMPTS_FOLDER / f"{format_short_id(job.claim.run_id)}.md"
        places = [path for path in (program.scratch_dir, str(prompt)) if path and Path(path).exists()]
        # At the paths that the program was given, which may contain links.
        return tuple(Mount(source=os.path.realpath(path), target=path) for path in places)

    def _agent_home(self, target: str) -> str:
        home = agent_home(self._settings.state_dir, self._settings.environ, target)
        for folder in (home, home / ".claude", home / ".codex"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.path.realpath(home)


def _describe_result(result: WorkspaceResult) -> str:
    if result.note:
        return f"the workspace is kept, because it could not be examined: {result.note}"
    if result.path:
        return f"the workspace is kept: branch {result.branch}"
    return f"the workspace is removed, and branch {result.branch} stays" if result.branch else "nothing was changed"


async def _call_or_undo(call: Callable[[], T], undo: Callable[[T], object]) -> T:
    """Return the result of a call in a thread. If cancelled meanwhile, wait for it, undo it, and raise."""
    results: list[T] = []

    async def run() -> None:
        results.append(await call_in_thread(call))

    task = asyncio.ensure_future(run())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:

        async def end() -> None:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await call_in_thread(undo, results[0])

        await complete(end())
        raise
    return results[0]
