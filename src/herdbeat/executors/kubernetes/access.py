"""How to reach a cluster and who we are there: the service account of our pod, or a context of a kubeconfig."""

import asyncio
import base64
import binascii
import ipaddress
import json
import os
import ssl
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from urllib.parse import urlsplit

import yaml

from herdbeat.clock import Clock
from herdbeat.domain.executor import KubernetesSettings
from herdbeat.errors import TimeParseError
from herdbeat.executors.base import ExecutorError
from herdbeat.platform import default_signals
from herdbeat.timestamps import parse_stored_timestamp

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_KUBECONFIG_BYTES = 4 * 1024 * 1024
PLUGIN_TIMEOUT_S = 30.0
PLUGIN_MARGIN = timedelta(minutes=1)
"""A credential that ends so soon is fetched again: it must outlive the request."""
_PLUGIN_APIS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who we are in one request: a bearer token, or a client certificate inside of `tls`, or both."""

    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None


class Credentials(Protocol):
    async def get(self) -> Identity:
        """Return who we are now. Raises ExecutorError."""
        ...

    def expire(self) -> None:
        """The cluster refused the last identity: fetch a new one if there is a way to."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The address of a cluster's API, the name that its certificate must have if not that of the address, and who
    we are.
    """

    server: str
    credentials: Credentials
    server_name: str = ""
    is_verified: bool = True


def open_access(settings: KubernetesSettings, clock: Clock, environment: Mapping[str, str]) -> ClusterAccess:
    """Return the access that the fleet file names, else that of our own pod. Raises ExecutorError."""
    if settings.kubeconfig:
        return _from_kubeconfig(Path(settings.kubeconfig), settings.context, clock, environment)
    return _from_pod(environment, SERVICE_ACCOUNT)


# --- inside of a cluster


def _from_pod(environment: Mapping[str, str], account: Path) -> ClusterAccess:
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").exists():
        raise ExecutorError(
            "This node is not inside of a cluster, and no kubeconfig is given.",
            hint="Add kubeconfig: ~/.kube/config to executors.kubernetes.",
            is_permanent=True,
        )
    address = f"[{host}]" if ":" in host else host
    tls = _open_tls(_read(account / "ca.crt"), is_verified=True)
    return ClusterAccess(server=f"https://{address}:{port}", credentials=_TokenFile(account / "token", tls))


@dataclass(frozen=True, slots=True)
class _TokenFile:
    """A token that the kubelet replaces about once an hour, so every request reads it."""

    path: Path
    tls: ssl.SSLContext | None

    async def get(self) -> Identity:
        return Identity(token=_read(self.path).decode("ascii", "replace").strip(), tls=self.tls)

    def expire(self) -> None:
        """The file is read again anyway."""


@dataclass(frozen=True, slots=True)
class _Fixed:
    identity: Identity

    async def get(self) -> Identity:
        return self.identity

    def expire(self) -> None:
        """There is no other."""


# --- a kubeconfig


class _Entry:
    """One mapping of a kubeconfig, with errors that name the file and the key."""

    def __init__(self, path: Path, name: str, values: Mapping[str, object]) -> None:
        self.path = path
        self.name = name
        self._values = values

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"{key} must be a text")
        return value

    def flag(self, key: str) -> bool:
        return self._values.get(key) is True

    def items(self, key: str) -> list[object]:
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.error(f"{key} must be a list")
        return value or []

    def section(self, key: str) -> "_Entry | None":
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{key} must be a mapping")
        return _Entry(self.path, f"{self.name}.{key}".lstrip("."), value)

    def named(self, list_key: str, name: str) -> "_Entry":
        """Return the inner mapping of the entry with this name: `clusters[name].cluster`."""
        inner = list_key.removesuffix("s")
        for each in self.items(list_key):
            if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(inner), dict):
                return _Entry(self.path, f"{list_key}.{name}", each[inner])
        raise self.error(f'there is no "{name}" in {list_key}')

    def bytes(self, key: str) -> bytes | None:
        """Return what `<key>-data` holds in base64, or the file that `<key>` names, relative to the kubeconfig."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                raise self.error(f"{key}-data is not base64") from None
        if name := self.text(key):
            return _read(self.path.parent / Path(name).expanduser())
        return None

    def error(self, what: str) -> ExecutorError:
        place = f"{self.path}: {self.name}: " if self.name else f"{self.path}: "
        return ExecutorError(f"{place}{what}.", hint="Check it with: kubectl config view", is_permanent=True)


def _from_kubeconfig(path: Path, context_name: str, clock: Clock, environment: Mapping[str, str]) -> ClusterAccess:
    root = _Entry(path, "", _load_kubeconfig(path))
    name = context_name or root.text("current-context")
    if not name:
        raise root.error("it has no current-context, and executors.kubernetes names no context")
    context = root.named("contexts", name)
    cluster, user = root.named("clusters", context.text("cluster")), root.named("users", context.text("user"))
    server = cluster.text("server").rstrip("/")
    _require_safe_server(server, cluster)
    if cluster.text("proxy-url"):
        raise cluster.error("proxy-url is not supported")
    is_verified = not cluster.flag("insecure-skip-tls-verify")
    authority = cluster.bytes("certificate-authority")
    return ClusterAccess(
        server=server,
        credentials=_open_credentials(user, authority, is_verified, clock, environment),
        server_name=cluster.text("tls-server-name"),
        is_verified=is_verified,
    )


def _require_safe_server(server: str, cluster: _Entry) -> None:
    """Secrets travel there, so plain text is for loopback only."""
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise cluster.error("server is not an http or https address")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise cluster.error("server must be an https address, because tokens of runs are sent there")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _load_kubeconfig(path: Path) -> Mapping[str, object]:
    raw = _read(path)
    hint = "Check it with: kubectl config view"
    if len(raw) > MAX_KUBECONFIG_BYTES:
        raise ExecutorError(f"{path} is too large for a kubeconfig.", hint=hint, is_permanent=True)
    try:
        values = yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ExecutorError(f"{path} is not YAML.", hint=hint, is_permanent=True) from error
    if not isinstance(values, dict):
        raise ExecutorError(f"{path} is not a kubeconfig.", hint=hint, is_permanent=True)
    return values


def _open_credentials(
    user: _Entry, authority: bytes | None, is_verified: bool, clock: Clock, environment: Mapping[str, str]
) -> Credentials:
    for key in ("auth-provider", "username", "as"):
        if user.section(key) if key == "auth-provider" else user.text(key):
            raise user.error(f"{key} is not supported; use a token, a client certificate or an exec plugin")
    if plugin := user.section("exec"):
        return _open_plugin(plugin, authority, is_verified, clock, environment)
    certificate, key_data = user.bytes("client-certificate"), user.bytes("client-key")
    try:
        tls = _open_tls(authority, is_verified=is_verified, certificate=certificate, key=key_data)
    except (ssl.SSLError, ValueError) as error:
        raise user.error(f"the certificates cannot be used: {error}") from error
    if name := user.text("tokenFile"):
        return _TokenFile(user.path.parent / Path(name).expanduser(), tls)
    return _Fixed(Identity(token=user.text("token"), tls=tls))


# --- an exec plugin


def _open_plugin(
    plugin: _Entry, authority: bytes | None, is_verified: bool, clock: Clock, environment: Mapping[str, str]
) -> Credentials:
    if (api := plugin.text("apiVersion")) not in _PLUGIN_APIS:
        raise plugin.error(f"apiVersion must be one of {', '.join(_PLUGIN_APIS)}")
    if plugin.text("interactiveMode") == "Always":
        raise plugin.error("a plugin that asks a person cannot be used by a scheduler")
    program = plugin.text("command")
    if "/" in program:
        program = str(plugin.path.parent / Path(program).expanduser())
    added = {str(each["name"]): str(each["value"]) for each in plugin.items("env") if isinstance(each, dict)}
    asked = {"apiVersion": api, "kind": "ExecCredential", "spec": {"interactive": False}}
    return _Plugin(
        argv=(program, *map(str, plugin.items("args"))),
        environment={**environment, **added, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
        authority=authority,
        is_verified=is_verified,
        clock=clock,
    )


@dataclass(slots=True, kw_only=True)
class _Plugin:
    """A program that prints a credential. It is asked again when that one ends or is refused."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    authority: bytes | None
    is_verified: bool
    clock: Clock
    _identity: Identity | None = None
    _expires_at: datetime | None = None

    async def get(self) -> Identity:
        soon = self.clock.now() + PLUGIN_MARGIN
        if self._identity is None or (self._expires_at is not None and self._expires_at <= soon):
            self._identity, self._expires_at = self._parse(await self._ask())
        return self._identity

    def expire(self) -> None:
        self._identity = None

    async def _ask(self) -> bytes:
        try:
            with default_signals() as preexec_fn:
                process = await asyncio.create_subprocess_exec(
                    *self.argv, env=self.environment, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, preexec_fn=preexec_fn
                )
        except (OSError, ValueError) as error:
            raise self._error("cannot be started", "Install it, or correct users.….exec.command.") from error
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT_S):
                printed, _ = await process.communicate()
        except TimeoutError as error:
            raise self._error(f"did not end within {PLUGIN_TIMEOUT_S:g}s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise self._error(f"ended with exit code {process.returncode}", f"Try it: {self.argv[0]}")
        return printed

    def _parse(self, printed: bytes) -> tuple[Identity, datetime | None]:
        try:
            status = json.loads(printed)["status"]
            token, ends = status.get("token", ""), status.get("expirationTimestamp")
            certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
            tls = _open_tls(
                self.authority,
                is_verified=self.is_verified,
                certificate=certificate.encode() if certificate else None,
                key=key.encode() if key else None,
            )
            return Identity(token=token, tls=tls), parse_stored_timestamp(ends) if ends else None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ssl.SSLError, TimeParseError) as error:
            raise self._error("did not print a credential") from error

    def _error(self, what: str, hint: str = "") -> ExecutorError:
        return ExecutorError(f"The credential plugin {Path(self.argv[0]).name} {what}.", hint=hint)


# --- files and certificates


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ExecutorError(
            f"{path} cannot be read: {error.strerror or error}.", hint="Check the path and its owner."
        ) from error


def _open_tls(
    authority: bytes | None, *, is_verified: bool, certificate: bytes | None = None, key: bytes | None = None
) -> ssl.SSLContext:
    """Raises ssl.SSLError or ValueError if a certificate cannot be used."""
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    if not is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        # OpenSSL reads a chain and its key from files only. The folder is ours alone, and is gone at once.
        with TemporaryDirectory() as folder:
            written = Path(folder) / "client.pem"
            descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(certificate + b"\n" + (key or b""))
            context.load_cert_chain(written)
    return context
