"""A program to start for a run, and the seam at which a workspace or an isolation may surround it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from herdbeat.domain.target import AgentSpec
from herdbeat.runners.base import Job
from herdbeat.runners.run_log import RunLog


class SpawnFailed(Exception):
    """The program could not be started, because of the target. Its text says why, for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start for a run: arguments, folder, input, and changes to the environment of its target.

    `env` is added where the target itself sets no value, `env_names` are taken from the node, `unset_env` is removed.
    `interrupts_first`: when cancelled, it gets INT before TERM. `scratch_dir` is a folder of this run alone that the
    program reads; whatever confines the program has to keep it readable.
    """

    argv: tuple[str, ...]
    folder: str
    stdin: bytes = field(default=b"", repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_names: tuple[str, ...] = ()
    unset_env: tuple[str, ...] = ()
    interrupts_first: bool = False
    scratch_dir: str = ""


class ProgramPreparer(Protocol):
    """Decides where and in what an agent's program runs: in another folder, inside a sandbox or a container."""

    def prepare(self, job: Job, program: Program, run_log: RunLog) -> AbstractAsyncContextManager[Program]:
        """Yield the program to start instead; clean up when the block is left, also after a cancellation.

        Raises SpawnFailed if what the target asks for cannot be had: then nothing is started.
        """
        ...


class PlainPreparer:
    """Starts every program as it is, in the working directory of its target. Refuses one that needs isolation."""

    @asynccontextmanager
    async def prepare(self, job: Job, program: Program, run_log: RunLog) -> AsyncIterator[Program]:  # noqa: ARG002
        spec = job.target.spec
        if isinstance(spec, AgentSpec) and spec.docker is not None and spec.docker.get("enabled"):
            raise SpawnFailed(
                f'The agent "{job.target.name}" needs Docker, which this version does not support yet.'
                " The agent was not run."
            )
        yield program
