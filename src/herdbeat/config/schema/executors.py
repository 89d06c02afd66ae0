"""The keys of executors: where runs of a target happen, what they may use there, and the engines of a fleet."""

import ipaddress
import re
from urllib.parse import urlsplit

from herdbeat.config.diagnostics import Diagnostics, ValidationError
from herdbeat.config.nodes import ConfigNode
from herdbeat.config.schema.formats import ARGV, DURATION, PATH, TEXT, URL, VARIABLE_NAME, parse_memory
from herdbeat.config.schema.table import Field, MapOf, Table
from herdbeat.config.schema.types import EnumValue, Number, ParsedText
from herdbeat.domain.executor import ExecutorKind
from herdbeat.error_codes import Code

_MEMORY_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_LABEL_PATTERN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_NAMESPACE_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def parse_memory_size(text: str) -> int:
    """Parse "512m" or "2g" into bytes."""
    written = re.sub(r"[\s]|i?b$|i$", "", parse_memory(text).lower())
    unit = written[-1] if written[-1] in _MEMORY_UNITS else ""
    size = int(float(written.removesuffix(unit)) * _MEMORY_UNITS[unit])
    if size < _MEMORY_UNITS["m"]:
        hint = 'Write for example "512m" or "2g"; a number alone is bytes.'
        raise ValidationError(Code.INVALID_VALUE, f'"{text}" is less than a megabyte.', hint)
    return size


def parse_label_text(text: str) -> str:
    if not _LABEL_PATTERN.fullmatch(text):
        hint = "Use at most 63 letters, digits, '.', '-' and '_', with a letter or a digit at both ends."
        raise ValidationError(Code.INVALID_VALUE, f'"{text[:80]}" is not a label.', hint)
    return text


def parse_namespace(text: str) -> str:
    if not _NAMESPACE_PATTERN.fullmatch(text):
        hint = "Use at most 63 lower-case letters, digits and '-', with a letter or a digit at both ends."
        raise ValidationError(Code.INVALID_VALUE, f'"{text[:80]}" is not a namespace.', hint)
    return text


MEMORY_SIZE = ParsedText("a memory size", parse_memory_size, "", ("512m", "2g"), accepts_numbers=True)
LABEL = ParsedText("a label", parse_label_text, "")
NAMESPACE = ParsedText("a namespace", parse_namespace, "")

_EXECUTOR = Field(
    "executor",
    EnumValue(ExecutorKind),
    "Where its runs happen: on the node, or on an engine under `executors:`.",
    unset="by the label of the node, else local",
)
_RESOURCES = Field(
    "resources",
    Table(
        "Resources",
        Field("cpus", Number(0, 10_000), "Processors that a run may use on its engine.", unset="the engine decides"),
        Field("memory", MEMORY_SIZE, "Memory that a run may use on its engine.", unset="the engine decides"),
        Field("gpu", Number(0, 1_000), "GPUs that a run gets on its engine.", unset="none"),
        Field("image", TEXT, "kubernetes: image of the container.", unset="executors.kubernetes.image"),
        Field("node_selector", MapOf(LABEL), "Labels that a machine of the engine must have.", unset="any machine"),
        Field("start_timeout", DURATION, "How long the engine may take until a run has begun.", unset="5m"),
    ),
    "What runs may use on an engine.",
)
EXECUTOR_KEYS: tuple[Field[object], ...] = (_EXECUTOR, _RESOURCES)
"""For agents and commands."""

_NODE_ONLY_REASON = "its runs happen inside of the node"
NO_EXECUTOR_KEYS: tuple[Field[object], ...] = tuple(
    Field(key.name, key.field_type, "", unsupported_reason=_NODE_ONLY_REASON) for key in EXECUTOR_KEYS
)
"""For endpoints and callables."""

CALLBACK = Field(
    "callback",
    URL,
    "Address of our server as machines of the engine reach it; https unless it is loopback.",
    unset="server.public_url, else the address of the server",
)
COMMAND = Field("command", ARGV, "What starts herdbeat on machines of the engine.", unset="herdbeat")
FOLDER = Field(
    "folder", PATH, "Folder on these machines that relative paths of targets count from.", unset="the fleet's folder"
)
NODE_LABEL = Field(
    "label", LABEL, "Nodes with this label use the engine for targets that name no executor.", unset="none"
)
ENGINE_LEASE = Field("lease", DURATION, "How long a run may go without a report until it counts as lost.", "5m")
_ACCESS_KEYS: tuple[Field[object], ...] = (CALLBACK, COMMAND, FOLDER, NODE_LABEL, ENGINE_LEASE)

RAY_URL = Field("url", URL, "Address of the dashboard of the cluster, which serves Ray Jobs.", required=True)
RAY_TOKEN_FILE = Field(
    "token_file",
    PATH,
    "File on the machines of the cluster with a token of the scope exec:ray. A relative path counts from `folder`.",
    required=True,
)
RAY_AUTH_ENV = Field("auth_env", VARIABLE_NAME, "Variable with the token that the cluster itself wants.", unset="none")
K8S_NAMESPACE = Field("namespace", NAMESPACE, "Namespace of the jobs.", "default")
K8S_IMAGE = Field("image", TEXT, "Image of targets that name none.", unset="none")
K8S_KUBECONFIG = Field("kubeconfig", PATH, "File with the access to the cluster.", unset="that of the node's pod")
K8S_CONTEXT = Field("context", TEXT, "Context of the kubeconfig.", unset="its current context")


class _EngineTable(Table):
    """The block of an engine. Results and logs must not cross a network in plain text."""

    def validate(self, node: ConfigNode, diagnostics: Diagnostics) -> None:
        super().validate(node, diagnostics)
        callback = node.child(CALLBACK.name) if isinstance(node.value, dict) else None
        if callback is None or not isinstance(callback.value, str):
            return
        if not is_safe_callback(callback.value):
            message = "Prompts, secrets and results would cross the network in plain text."
            hint = "Write an https address; http is for loopback only."
            diagnostics.error(Code.INVALID_VALUE, message, callback.location, hint)


def is_safe_callback(url: str) -> bool:
    """Return whether prompts and secrets may be fetched from there."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


RAY = Field(
    "ray",
    _EngineTable("A Ray cluster", RAY_URL, RAY_TOKEN_FILE, RAY_AUTH_ENV, *_ACCESS_KEYS),
    "A Ray cluster: runs are Ray Jobs.",
    unset="none",
)
KUBERNETES = Field(
    "kubernetes",
    _EngineTable("A Kubernetes cluster", K8S_NAMESPACE, K8S_IMAGE, K8S_KUBECONFIG, K8S_CONTEXT, *_ACCESS_KEYS),
    "A Kubernetes cluster: runs are Jobs.",
    unset="none",
)
EXECUTORS = Field("executors", Table("An executors block", RAY, KUBERNETES), "Engines that runs can happen on.")
