"""Isolation: what confines the program of an agent, and what it may still reach."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class IsolationType(StrEnum):
    DOCKER = "docker"
    BWRAP = "bwrap"


class Access(StrEnum):
    READ_ONLY = "ro"
    READ_WRITE = "rw"


class ContainerNetwork(StrEnum):
    BRIDGE = "bridge"
    NONE = "none"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """The part of herdctl's `docker` block that describes a container.

    `engine` is the program that starts it; None means docker, or podman if only that is installed. `user` is
    `uid:gid`, None for the user of the node. `host_config` has options of Docker's API, of which a few are supported.
    """

    engine: str | None = None
    image: str = "herdctl/runtime:latest"
    network: ContainerNetwork = ContainerNetwork.BRIDGE
    user: str | None = None
    memory: str = "2g"
    cpu_shares: int | None = None
    cpu_period: int | None = None
    cpu_quota: int | None = None
    pids_limit: int = 512
    tmpfs: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    host_config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationSpec:
    """How a run is isolated. It is run like this, or not at all.

    `workspace` is the access to the working directory, `credentials` that to the login of the agent's CLI. `read_only`
    and `read_write` are further folders that it sees, at their own paths. `network` counts for bwrap; a container has
    its own.
    """

    type: IsolationType
    network: bool = True
    workspace: Access = Access.READ_WRITE
    credentials: Access = Access.READ_ONLY
    read_only: tuple[str, ...] = ()
    read_write: tuple[str, ...] = ()
    container: ContainerSettings | None = None

    @property
    def has_network(self) -> bool:
        if self.type is IsolationType.DOCKER:
            return self.container is None or self.container.network is not ContainerNetwork.NONE
        return self.network
