"""The engines of a fleet from their block, and what does not work on them."""

import os
from collections.abc import Sequence
from pathlib import Path

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.provenance import SectionReader
from herdbeat.config.schema import executors as keys
from herdbeat.config.sources import TargetSource
from herdbeat.domain.executor import EngineAccess, ExecutorKind, ExecutorSettings, KubernetesSettings, RaySettings
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import AgentSpec, CommandSpec, TargetSpec
from herdbeat.error_codes import Code
from herdbeat.errors import SourceLocation
from herdbeat.executors.base import find_run_obstacle, find_spec_obstacle


def build_executors(settings: SectionReader, folder: Path) -> ExecutorSettings:
    """Return the engines of a validated fleet file in this folder, from which relative paths count."""
    block = settings.section(keys.EXECUTORS)
    return ExecutorSettings(ray=_build_ray(block, folder), kubernetes=_build_kubernetes(block, folder))


def _build_ray(executors: SectionReader, folder: Path) -> RaySettings | None:
    if not _is_written(executors.node, keys.RAY.name):
        return None
    block = executors.section(keys.RAY)
    url, token_file = block.get_optional(keys.RAY_URL), block.get_optional(keys.RAY_TOKEN_FILE)
    if not url or not token_file:
        return None  # reported by the check of the block
    auth_env = block.get_optional(keys.RAY_AUTH_ENV) or ""
    access = _build_access(block)
    # Not made absolute further than that: the file is on the machines of the cluster, not on this one.
    token_file = str(Path(access.folder or folder.absolute()) / token_file)
    return RaySettings(url=url.rstrip("/"), token_file=token_file, auth_env=auth_env, access=access)


def _build_kubernetes(executors: SectionReader, folder: Path) -> KubernetesSettings | None:
    if not _is_written(executors.node, keys.KUBERNETES.name):
        return None
    block = executors.section(keys.KUBERNETES)
    written = block.get_optional(keys.K8S_KUBECONFIG)
    return KubernetesSettings(
        namespace=block.get(keys.K8S_NAMESPACE),
        image=block.get_optional(keys.K8S_IMAGE) or "",
        kubeconfig=str((folder / _expand_home(written)).absolute()) if written else "",
        context=block.get_optional(keys.K8S_CONTEXT) or "",
        access=_build_access(block),
    )


def _build_access(block: SectionReader) -> EngineAccess:
    command = block.get_optional(keys.COMMAND)
    return EngineAccess(
        callback=(block.get_optional(keys.CALLBACK) or "").rstrip("/"),
        command=EngineAccess().command if command is None else tuple(command),
        folder=block.get_optional(keys.FOLDER) or "",
        label=block.get_optional(keys.NODE_LABEL) or "",
        lease=block.get(keys.ENGINE_LEASE),
    )


def _is_written(node: ConfigNode, name: str) -> bool:
    child = node.child(name)
    return child is not None and isinstance(child.value, dict)


def _expand_home(written: str) -> str:
    return str(Path(os.path.expanduser(written)))  # noqa: PTH111 -- Path's own raises without a home


def check_executor(
    source: TargetSource, spec: TargetSpec, schedules: Sequence[Schedule], diagnostics: Diagnostics
) -> bool:
    """Return whether runs of a target can happen on the engine that it names; report why they cannot."""
    assert isinstance(spec, AgentSpec | CommandSpec)
    errors_before, kind = diagnostics.error_count, spec.executor
    assert kind is not None
    where = source.node.find(("executor",)).report_location
    engine = source.fleet.executors.child(kind) if source.fleet.executors is not None else None
    if engine is None:
        hint = f"Add executors: {{ {kind}: {{ … }} }} to the fleet file, or write executor: local."
        diagnostics.error(Code.MISSING_KEY, f"The fleet has no executors.{kind}.", where, hint)
    elif kind is ExecutorKind.KUBERNETES and not _has_image(spec, engine):
        hint = "Add image to resources, or to executors.kubernetes."
        diagnostics.error(Code.MISSING_KEY, "A run on Kubernetes needs an image.", where, hint)
    if obstacle := find_spec_obstacle(spec, kind):
        _report_obstacle(obstacle, kind, where, diagnostics)
    for schedule in schedules:
        obstacle = find_run_obstacle(
            kind,
            workspace=schedule.workspace,
            isolation=schedule.isolation,
            resumes_session=schedule.resume_session,
        )
        if obstacle:
            location = schedule.origin if isinstance(schedule.origin, SourceLocation) else where
            _report_obstacle(obstacle, kind, location, diagnostics)
    return diagnostics.error_count == errors_before


def _has_image(spec: AgentSpec | CommandSpec, engine: ConfigNode) -> bool:
    has_own = spec.resources is not None and spec.resources.image is not None
    return has_own or engine.child(keys.K8S_IMAGE.name) is not None


def _report_obstacle(obstacle: str, kind: ExecutorKind, where: SourceLocation, diagnostics: Diagnostics) -> None:
    message = f"It cannot run with executor: {kind}: {obstacle}."
    diagnostics.error(Code.CONFLICTING_KEYS, message, where, "Write executor: local, or change that.")
