"""Executors: where the program of a run happens, what it may use there, and how the fleet reaches that engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

DEFAULT_START_TIMEOUT = timedelta(minutes=5)
DEFAULT_REMOTE_LEASE = timedelta(minutes=5)
"""How long a run on an engine may go without a report."""

KUBERNETES_TOKEN_FILE = "/var/run/herdbeat/token"  # noqa: S105 -- where the one-run token is mounted


class ExecutorKind(StrEnum):
    LOCAL = "local"  # a process of the node
    RAY = "ray"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a run may use on an engine. None leaves it to the engine.

    `memory` is in bytes. A run that has not begun after `start_timeout` is given up.
    """

    cpus: float | None = None
    memory: int | None = None
    gpu: float | None = None
    image: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    start_timeout: timedelta = DEFAULT_START_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAccess:
    """What all engines have in common.

    `callback` is the address of our server as machines of the engine reach it; empty for the server's own. `command`
    starts herdbeat there. `folder` is what relative paths of targets count from there; empty for the fleet's folder.
    Nodes with the label `label` use the engine for targets that name no executor. A run that was not heard of for a
    `lease` is lost.
    """

    callback: str = ""
    command: tuple[str, ...] = ("herdbeat",)
    folder: str = ""
    label: str = ""
    lease: timedelta = DEFAULT_REMOTE_LEASE


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """The Ray cluster: the address of its dashboard, and the file with our token on each of its machines.

    `auth_env` names the variable with the token of the cluster itself, if it wants one.
    """

    url: str
    token_file: str
    auth_env: str = ""
    access: EngineAccess = field(default_factory=EngineAccess)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """The cluster: its namespace, and how to reach it.

    Without `kubeconfig` a node inside of the cluster uses the service account of its pod. `image` is for targets that
    name none.
    """

    namespace: str = "default"
    image: str = ""
    kubeconfig: str = ""
    context: str = ""
    access: EngineAccess = field(default_factory=EngineAccess)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """The engines of a fleet."""

    ray: RaySettings | None = None
    kubernetes: KubernetesSettings | None = None

    def access(self, kind: ExecutorKind) -> EngineAccess | None:
        """Return how runs on that engine reach us; None if the fleet does not have it."""
        settings = {ExecutorKind.RAY: self.ray, ExecutorKind.KUBERNETES: self.kubernetes}.get(kind)
        return None if settings is None else settings.access

    def token_file(self, kind: ExecutorKind) -> str:
        """Return where the process of a run finds its token on a machine of the engine."""
        return self.ray.token_file if kind is ExecutorKind.RAY and self.ray is not None else KUBERNETES_TOKEN_FILE

    @property
    def kinds(self) -> tuple[ExecutorKind, ...]:
        return tuple(kind for kind in ExecutorKind if self.access(kind) is not None)
