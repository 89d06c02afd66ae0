"""Authentication and scopes: tokens, the login cookie, a proxy's user, or the user of this machine.

Every changing request that a browser could send by itself (cookie, proxy, loopback) must come from our own origin; with
a cookie or a proxy's user it also carries the CSRF token of the session.
"""

import hmac
import ipaddress
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from herdbeat.bootstrap.server_process import is_loopback
from herdbeat.domain.fleet import ServerSettings
from herdbeat.error_codes import Code
from herdbeat.errors import truncate_for_message
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.problems import HttpError
from herdbeat.service.commands.base import Actor, Forbidden, Scope
from herdbeat.service.commands.tokens import build_actor, hash_token, parse_token_scope

COOKIE_NAME = "herdbeat_session"
CSRF_HEADER = "x-csrf-token"
MAX_FAILED_LOGINS = 10
FAILED_LOGIN_WINDOW_S = 60.0
MAX_REMEMBERED_CLIENTS = 10_000
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip"})
_PROXY_HEADER_PREFIX = "x-forwarded-"

Identify = Callable[[Request], Actor | None]
"""Returns who sends a request, for a program that mounts the server in its own application; None if unknown."""


class CredentialKind(StrEnum):
    TOKEN = "token"  # noqa: S105 -- a word
    COOKIE = "cookie"
    PROXY = "proxy"
    PROGRAM = "program"  # the application that the server is mounted in
    LOOPBACK = "loopback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request, by which credential. `digest` is the hash of their token, if they have one."""

    actor: Actor
    kind: CredentialKind
    digest: str = ""

    @property
    def is_csrf_protected(self) -> bool:
        return self.kind in (CredentialKind.COOKIE, CredentialKind.PROXY, CredentialKind.PROGRAM)

    def require(self, scope: Scope) -> None:
        """Raises Forbidden."""
        if scope not in self.actor.scopes:
            who = truncate_for_message(self.actor.name)
            raise Forbidden(
                f"{who} is not allowed to do this.", hint=f'The request needs the scope "{scope.granted_by}".'
            )

    def require_target(self, target: str) -> None:
        """Raises Forbidden if this caller may look at another target only."""
        if self.actor.target and self.actor.target != target:
            who = truncate_for_message(self.actor.name)
            hint = "Use a token with the scope read to look at others, operate to change them."
            raise Forbidden(f"{who} is limited to the schedules of {self.actor.target}.", hint=hint)

    def require_target_of(self, selector: str) -> None:
        """Raises Forbidden for a selector of another target, whether there is such a target or not."""
        target, slash, _ = selector.rpartition("/")
        self.require_target(target if slash else selector)

    def require_whole_fleet(self) -> None:
        if self.actor.target:
            self.require_target("")


class FailedLogins:
    """Counts failed logins by client, for a minute. It forgets the oldest clients rather than grow.

    Only those who fail are slowed down: a client that shares the address of a program with a wrong token, as all users
    of a proxy do, still gets in. That gives nothing away, because a token has 160 random bits.
    """

    def __init__(self) -> None:
        self._failures: defaultdict[str, deque[float]] = defaultdict(deque)

    def add(self, client: str) -> None:
        """Count one more. Raises HttpError 429 if there were too many before it."""
        failures = self._failures.get(client)
        now = time.monotonic()
        while failures and failures[0] < now - FAILED_LOGIN_WINDOW_S:
            failures.popleft()
        if failures and len(failures) >= MAX_FAILED_LOGINS:
            wait = int(failures[0] + FAILED_LOGIN_WINDOW_S - now) + 1
            raise HttpError(
                429, Code.TOO_MANY_REQUESTS, "Too many logins failed.", headers={"Retry-After": str(max(1, wait))}
            )
        if failures is None and len(self._failures) >= MAX_REMEMBERED_CLIENTS:
            self._failures.pop(next(iter(self._failures)))
        self._failures[client].append(now)


@dataclass(slots=True)
class Authenticator:
    """Decides who a request comes from. Raises HttpError for a request that is refused."""

    gateway: FleetGateway
    secret: str
    identify: Identify | None = None
    failed_logins: FailedLogins = field(default_factory=FailedLogins)

    @property
    def settings(self) -> ServerSettings:
        return self.gateway.spec.settings

    def authenticate(self, request: Request, form_token: str = "", *, changes: bool = True) -> Caller:
        """Return who is asking. `form_token` is the CSRF token of a form, which can send no header.

        A POST that changes nothing needs no origin: what it answers is not readable for another site.
        """
        caller = self._find_caller(request)
        if caller is None:
            raise HttpError(
                401,
                Code.UNAUTHENTICATED,
                "The request has no credentials.",
                headers={"WWW-Authenticate": 'Bearer realm="herdbeat"'},
            )
        request.state.sees_one_target = bool(caller.actor.target)
        if changes and request.method not in _SAFE_METHODS and caller.kind is not CredentialKind.TOKEN:
            if not self._is_same_origin(request):
                raise _build_cross_site_error(request)
            if caller.is_csrf_protected:
                self._require_csrf_token(request, caller, form_token)
        return caller

    def is_still_valid(self, caller: Caller) -> bool:
        """Return whether the token of a stream is still valid. Other credentials are those of a process or a proxy."""
        return not caller.digest or self._find_token(caller.digest) is not None

    def require_no_foreign_page(self, request: Request) -> None:
        """Raises HttpError 403 for a page of another site: it must not sign its visitors in as a user of its choice."""
        if self.is_from_foreign_page(request):
            raise _build_cross_site_error(request)

    def is_from_foreign_page(self, request: Request) -> bool:
        """Whether a browser says that a page of another site sends this. Programs say nothing about pages."""
        is_browser = "origin" in request.headers or "sec-fetch-site" in request.headers
        return is_browser and not self._is_same_origin(request)

    def login(self, request: Request, text: str) -> Caller:
        """Return the caller that a token stands for. Raises HttpError 401 or 429."""
        actor = self._find_token(hash_token(text))
        if actor is None:
            self.failed_logins.add(self.find_client_address(request))
            raise HttpError(
                401,
                Code.UNAUTHENTICATED,
                "The token is unknown, expired or revoked.",
                headers={"WWW-Authenticate": 'Bearer realm="herdbeat", error="invalid_token"'},
            )
        return Caller(actor=actor, kind=CredentialKind.TOKEN, digest=hash_token(text))

    def build_csrf_token(self, caller: Caller) -> str:
        subject = caller.digest or caller.actor.name
        return hmac.new(self.secret.encode(), f"csrf:{subject}".encode(), sha256).hexdigest()

    def find_client_address(self, request: Request) -> str:
        """Return the address of the client: the peer, or the one that a trusted proxy names last."""
        peer = get_peer_address(request)
        # Some proxies append to the header of the client, others add a second one: the last name is the proxy's own.
        forwarded = ",".join(request.headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
        return forwarded if forwarded and peer in self.settings.trusted_proxies else peer

    def is_loopback_allowed(self) -> bool:
        """Whether the user of this machine needs no token, by settings and fleet. Raises StoreUnavailable."""
        is_embedded = self.identify is not None or self.gateway.spec.socket_fd < 0
        return not is_embedded and not self.settings.is_published and not self.gateway.has_isolation()

    def _find_caller(self, request: Request) -> Caller | None:
        if "authorization" in request.headers:
            return self._read_authorization(request)
        if self.identify is not None:
            actor = self.identify(request)
            return None if actor is None else Caller(actor=actor, kind=CredentialKind.PROGRAM)
        return self._read_proxy_user(request) or self._read_cookie(request) or self._read_loopback(request)

    def _read_authorization(self, request: Request) -> Caller:
        return self.login(request, read_bearer(request))

    def _read_proxy_user(self, request: Request) -> Caller | None:
        """The peer is the socket's own: a header cannot claim to come from the proxy."""
        proxy = self.settings.proxy_auth
        if proxy is None or get_peer_address(request) not in proxy.addresses:
            return None
        names = request.headers.getlist(proxy.header)
        if len(names) > 1:
            raise HttpError(401, Code.UNAUTHENTICATED, f"The header {proxy.header} is doubled.")
        name = truncate_for_message(names[0], 100).strip() if names else ""
        if not name:
            return None
        actor = build_actor(name, parse_token_scope(proxy.scope))
        return Caller(actor=actor, kind=CredentialKind.PROXY)

    def _read_cookie(self, request: Request) -> Caller | None:
        text = request.cookies.get(COOKIE_NAME)
        if not text:
            return None
        digest = hash_token(text)
        actor = self._find_token(digest)
        return None if actor is None else Caller(actor=actor, kind=CredentialKind.COOKIE, digest=digest)

    def _read_loopback(self, request: Request) -> Caller | None:
        if not self.is_loopback_allowed() or not is_loopback(get_peer_address(request)):
            return None
        if not is_loopback(_host_name(request.headers.get("host", ""))):
            return None
        if any(name in _PROXY_HEADERS or name.startswith(_PROXY_HEADER_PREFIX) for name in request.headers):
            return None  # a proxy runs on this machine: its users are not the user of this machine
        actor = Actor(name="human:local", is_remote=True)
        return Caller(actor=actor, kind=CredentialKind.LOOPBACK)

    def _find_token(self, digest: str) -> Actor | None:
        with self.gateway.open() as handle:
            found = handle.require_reader().find_token(digest)
            if found is None or not found.is_valid(handle.now):
                return None
        return build_actor(f"token:{found.name}", parse_token_scope(found.scope))

    def _is_same_origin(self, request: Request) -> bool:
        """True if the page that sends a change is ours: a browser names its origin."""
        origins = request.headers.getlist("origin")
        own = {request.headers.get("host", "").lower(), urlsplit(self.settings.public_url).netloc.lower()}
        if not origins:
            return request.headers.get("sec-fetch-site") == "same-origin"
        return all(_host_with_port(each) in own - {""} for each in origins)

    def _require_csrf_token(self, request: Request, caller: Caller, form_token: str) -> None:
        given = request.headers.get(CSRF_HEADER, "") or form_token
        if not hmac.compare_digest(given.encode(), self.build_csrf_token(caller).encode()):
            raise HttpError(
                403,
                Code.CROSS_SITE,
                "The CSRF token is missing or wrong.",
                hint="Send the header X-CSRF-Token with csrf_token of GET /api/v1/session.",
            )


def _build_cross_site_error(request: Request) -> HttpError:
    where = f"{request.url.scheme}://{request.headers.get('host', '')}"
    return HttpError(
        403,
        Code.CROSS_SITE,
        "A change without a token must come from a page of this server.",
        hint=f"Send a token (Authorization: Bearer TOKEN), or the header Origin: {where}",
    )


def is_allowed_host(host: str, settings: ServerSettings, machine: str) -> bool:
    """Whether a Host header names this server. A page that rebinds its own name to our address must not get in.

    An address cannot be rebound, and neither can the names that the settings state.
    """
    name = _host_name(host)
    if not name:
        return False
    public = urlsplit(settings.public_url).hostname or ""
    if name in {"localhost", machine.lower(), public.lower(), settings.host.lower()} - {""}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def get_peer_address(request: Request) -> str:
    """Return the address of the socket's own peer."""
    client = request.client.host if request.client else ""
    return client.removeprefix("::ffff:")


def read_bearer(request: Request) -> str:
    """Return the token of the header Authorization; empty without one, with two, or for another scheme."""
    values = request.headers.getlist("authorization")
    scheme, _, text = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return text.strip() if scheme.lower() == "bearer" else ""


def _host_with_port(origin: str) -> str:
    """Return the host of an origin, with its port; empty for what is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port and its brackets; empty for what is no host."""
    if "@" in host:
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def get_authenticator(request: Request) -> Authenticator:
    found = request.app.state.authenticator
    assert isinstance(found, Authenticator)
    return found


async def get_gateway(request: Request) -> FleetGateway:
    """Asynchronous because FastAPI would start a thread for it."""
    return get_authenticator(request).gateway


def _require(scope: Scope, *, changes: bool = True) -> Callable[[Request], Caller]:
    def authenticate(request: Request) -> Caller:
        caller = get_authenticator(request).authenticate(request, changes=changes)
        caller.require(scope)
        return caller

    return authenticate


ReadCaller = Annotated[Caller, Depends(_require(Scope.READ))]
AskingCaller = Annotated[Caller, Depends(_require(Scope.READ, changes=False))]
OperateCaller = Annotated[Caller, Depends(_require(Scope.CONTROL))]
AdminCaller = Annotated[Caller, Depends(_require(Scope.ADMIN))]
Gateway = Annotated[FleetGateway, Depends(get_gateway)]
