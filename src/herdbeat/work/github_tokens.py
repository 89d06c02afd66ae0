"""Tokens for GitHub: a personal access token, or one of a GitHub App, which is fetched and renewed.

An App's token is asked for with a JWT that the App's private key signs (RS256). The program `openssl` signs it from the
key's file: Python's standard library cannot, and a package with a cryptography library of its own would be 10 MB for
one signature an hour. The key never enters this process.
"""

import asyncio
import base64
import json
from asyncio.subprocess import DEVNULL, PIPE
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from herdbeat.clock import Clock
from herdbeat.platform import default_signals
from herdbeat.redaction import register_secrets
from herdbeat.work.base import FailureCause, WorkSourceFailed
from herdbeat.work.github_history import parse_time
from herdbeat.work.http import HttpAnswer, HttpTransport, as_dict

JWT_LIFETIME = timedelta(minutes=9)
CLOCK_SKEW = timedelta(seconds=60)
RENEW_BEFORE = timedelta(minutes=5)
TOKEN_LIFETIME = timedelta(hours=1)
SIGN_TIMEOUT_S = 20.0
_KEY_HINT = "auth.private_key_file must name the key that GitHub made for the App (a .pem file)."


class TokenProvider(Protocol):
    """Gives the token for the next request."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that must not appear in a message."""
        ...

    async def token(self) -> str: ...

    def renew(self) -> bool:
        """Forget a token that was refused. False if there is no other."""
        ...


class PersonalToken:
    """A token that was given: classic, fine-grained, or that of a workflow."""

    def __init__(self, token: str) -> None:
        if not token.isascii() or not token.isprintable() or not token.strip():
            hint = "Set the variable that auth.token_env names (GITHUB_TOKEN by default)."
            raise WorkSourceFailed("There is no usable GitHub token.", cause=FailureCause.AUTHENTICATION, hint=hint)
        self._token = token.strip()
        register_secrets([self._token])

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self._token,)

    async def token(self) -> str:
        return self._token

    def renew(self) -> bool:
        return False


class AppToken:
    """The token of a GitHub App's installation: valid for an hour, kept until five minutes before."""

    def __init__(
        self,
        transport: HttpTransport,
        clock: Clock,
        *,
        app_id: str,
        installation_id: int,
        private_key_file: Path,
        api_url: str,
    ) -> None:
        self._transport = transport
        self._app_id = app_id
        self._installation_id = installation_id
        self._private_key_file = private_key_file.absolute()  # a name that begins with "-" is no option then
        self._api_url = api_url.rstrip("/")
        self._clock = clock
        self._token = ""
        self._renew_at: datetime | None = None
        self._jwt = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self._token, self._jwt)

    async def token(self) -> str:
        now = self._clock.now()
        if not self._token or self._renew_at is None or now >= self._renew_at:
            path = f"/app/installations/{self._installation_id}/access_tokens"
            answer = await self._request("POST", path)
            data = as_dict(answer.data)
            token = data.get("token")
            if answer.status != 201 or not isinstance(token, str):
                raise _refused(answer)
            self._token = token
            self._renew_at = now + TOKEN_LIFETIME - RENEW_BEFORE
            expires_at = parse_time(data.get("expires_at"))
            if expires_at is not None:
                self._renew_at = min(self._renew_at, expires_at - RENEW_BEFORE)
        return self._token

    def renew(self) -> bool:
        self._token = ""
        return True

    async def _request(self, method: str, path: str) -> HttpAnswer:
        self._jwt = await build_jwt(self._app_id, self._private_key_file, self._clock.now())
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._jwt}",
            "User-Agent": "herdbeat",
        }
        return await self._transport.request(method, self._api_url + path, headers)


async def build_jwt(app_id: str, private_key_file: Path, now: datetime) -> str:
    """Return a JWT that proves to be the App. It begins a minute ago, because clocks differ."""
    claims = {
        "iat": int((now - CLOCK_SKEW).timestamp()),
        "exp": int((now + JWT_LIFETIME).timestamp()),
        "iss": app_id,
    }
    parts = [{"alg": "RS256", "typ": "JWT"}, claims]
    signed = b".".join(_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    signature = await _sign(signed, private_key_file)
    return b".".join([signed, _base64url(signature)]).decode()


async def _sign(data: bytes, private_key_file: Path) -> bytes:
    """Return the RS256 signature. An encrypted key has no passphrase here and is refused, not asked about."""
    argv = ["openssl", "dgst", "-sha256", "-passin", "pass:", "-sign", str(private_key_file)]
    try:
        with default_signals() as preexec_fn:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, preexec_fn=preexec_fn
            )
    except OSError as error:
        text = "A GitHub App needs the program openssl, which was not found."
        raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Install openssl, or use a token.") from error
    try:
        async with asyncio.timeout(SIGN_TIMEOUT_S):
            signature, _ = await process.communicate(data)
    except TimeoutError as error:
        raise WorkSourceFailed("openssl did not end in time.", cause=FailureCause.TIMEOUT) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0 or not signature:
        text = f"openssl cannot sign with {private_key_file.name}."
        raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint=_KEY_HINT)
    return signature


def _base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _refused(answer: HttpAnswer) -> WorkSourceFailed:
    if answer.status >= 500:
        return WorkSourceFailed(f"GitHub answered {answer.status}.", cause=FailureCause.UNAVAILABLE)
    if answer.status == 429 or "Retry-After" in answer.headers or answer.headers.get("X-RateLimit-Remaining") == "0":
        return WorkSourceFailed("GitHub's rate limit for the App is reached.", cause=FailureCause.RATE_LIMITED)
    text = f"GitHub refused the App's key with {answer.status}."
    hint = "Check the App's id, its installation's id and its private key."
    return WorkSourceFailed(text, cause=FailureCause.AUTHENTICATION, hint=hint)
