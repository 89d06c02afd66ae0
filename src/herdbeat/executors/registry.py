"""The engines of a fleet, opened. Each is imported only if the fleet has it."""

from collections.abc import Mapping

from herdbeat.clock import Clock
from herdbeat.domain.executor import ExecutorKind, ExecutorSettings
from herdbeat.executors.base import Executor


def open_executors(
    settings: ExecutorSettings, environ: Mapping[str, str], clock: Clock
) -> dict[ExecutorKind, Executor]:
    """Return an executor for each engine that the fleet has. Close them at the end."""
    opened: dict[ExecutorKind, Executor] = {}
    if settings.ray is not None:
        from herdbeat.executors.ray import RayExecutor  # noqa: PLC0415 -- loads aiohttp

        opened[ExecutorKind.RAY] = RayExecutor(settings.ray, environ)
    if settings.kubernetes is not None:
        from herdbeat.executors.kubernetes.executor import KubernetesExecutor  # noqa: PLC0415 -- loads aiohttp and YAML

        opened[ExecutorKind.KUBERNETES] = KubernetesExecutor(settings.kubernetes, environ, clock)
    return opened
