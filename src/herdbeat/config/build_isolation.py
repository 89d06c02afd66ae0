"""The keys `workspace`, `isolation` and `docker` of an agent or a schedule to what its runs need."""

from dataclasses import replace

from herdbeat.config.diagnostics import Diagnostics
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.provenance import SectionReader, build_value
from herdbeat.config.schema.agent import DOCKER
from herdbeat.config.schema.isolation import (
    ISOLATION,
    ISOLATION_TABLE,
    ISOLATION_TYPE,
    WORKSPACE,
    WORKSPACE_TABLE,
)
from herdbeat.domain.isolation import Access, ContainerNetwork, ContainerSettings, IsolationSpec, IsolationType
from herdbeat.domain.workspace import WorkspaceSpec
from herdbeat.error_codes import Code

SUPPORTED_HOST_OPTIONS = ("ShmSize", "Devices", "ExtraHosts", "Ulimits", "Dns", "Sysctls")
_CONTAINER_TEXTS = ("image", "user", "memory")
_CONTAINER_NUMBERS = ("cpu_shares", "cpu_period", "cpu_quota", "pids_limit")
_CONTAINER_LISTS = ("tmpfs", "volumes", "ports")


def build_workspace(node: ConfigNode) -> WorkspaceSpec | None:
    """Return the workspace of a validated agent or schedule; None if it names none."""
    block = _get_block(node, WORKSPACE.name)
    return None if block is None else build_value(WorkspaceSpec, SectionReader(block, "").read(WORKSPACE_TABLE.keys))


def build_isolation(node: ConfigNode, agent: ConfigNode) -> IsolationSpec | None:
    """Return the isolation of a validated agent or schedule; None if it names none.

    The settings of a container are always those of the agent's `docker` block. An agent with `docker.enabled` is
    isolated by it, unless `isolation` names another means.
    """
    block, docker = _get_block(node, ISOLATION.name), agent.child("docker")
    if block is None:
        is_enabled = node is agent and docker is not None and docker.find(("enabled",)).value is True
        return _build_container(docker, None) if is_enabled else None
    values = SectionReader(block, "").read(ISOLATION_TABLE.keys)
    if values["type"] is IsolationType.DOCKER:
        return _build_container(docker, block)
    names = ("type", "network", "workspace", "credentials", "read_only", "read_write")
    return build_value(IsolationSpec, {name: values[name] for name in names})


def _build_container(docker: ConfigNode | None, block: ConfigNode | None) -> IsolationSpec:
    settings = _read_container_settings(docker)
    workspace = Access.READ_ONLY if docker is not None and docker.find(("workspace_mode",)).value == "ro" else None
    if block is None:
        spec = IsolationSpec(type=IsolationType.DOCKER, container=settings)
        return spec if workspace is None else replace(spec, workspace=workspace)
    values = SectionReader(block, "").read(ISOLATION_TABLE.keys)
    network, image, engine = values["network"], values["image"], values["engine"]
    if network is False:
        settings = replace(settings, network=ContainerNetwork.NONE)
    if isinstance(image, str):
        settings = replace(settings, image=image)
    if isinstance(engine, str):
        settings = replace(settings, engine=engine)
    if block.child("workspace") is None and workspace is not None:
        values["workspace"] = workspace
    names = ("type", "workspace", "credentials", "read_only", "read_write")
    return build_value(IsolationSpec, {**{name: values[name] for name in names}, "container": settings})


def _read_container_settings(docker: ConfigNode | None) -> ContainerSettings:
    if docker is None or not isinstance(docker.value, dict):
        return ContainerSettings()
    read = SectionReader(docker, "").read(DOCKER.keys)
    values = {name: str(read[name]) for name in _CONTAINER_TEXTS if read[name] is not None}
    numbers = {name: read[name] for name in _CONTAINER_NUMBERS}
    lists = {name: read[name] for name in _CONTAINER_LISTS}
    maps = {name: _read_texts(docker, name) for name in ("labels", "env")}
    network = ContainerNetwork(str(read["network"]))
    host_config = read["host_config"] if isinstance(read["host_config"], dict) else {}
    return build_value(
        ContainerSettings, {**values, **numbers, **lists, **maps, "network": network, "host_config": host_config}
    )


def _read_texts(node: ConfigNode, name: str) -> dict[str, str]:
    child = node.child(name)
    return {} if child is None else {key: str(value.value) for key, value in child.items()}


def _get_block(node: ConfigNode, name: str) -> ConfigNode | None:
    """Return the block of a key whose short form is its type."""
    child = node.child(name)
    if child is None or child.value is None:
        return None
    return child if isinstance(child.value, dict) else ConfigNode({ISOLATION_TYPE.name: child}, child.location)


def warn_container_options(agent: ConfigNode, diagnostics: Diagnostics) -> None:
    """Warn of what a docker block asks for and a run does not get, or will be refused for."""
    docker = agent.child("docker")
    if docker is None or docker.find(("enabled",)).value is not True:
        return
    ephemeral, host_config = docker.child("ephemeral"), docker.child("host_config")
    if ephemeral is not None and ephemeral.value is False:
        message = '"ephemeral: false" has no effect: every run has a container of its own.'
        diagnostics.warning(Code.NOT_SERVED, message, ephemeral.report_location)
    if host_config is not None and isinstance(host_config.value, dict):
        for name, child in host_config.value.items():
            if name not in SUPPORTED_HOST_OPTIONS:
                message = f'The host option "{name}" is not supported: runs of the agent are skipped as config_error.'
                hint = f"Supported options: {', '.join(SUPPORTED_HOST_OPTIONS)}."
                diagnostics.warning(Code.NOT_SERVED, message, child.report_location, hint)
