"""Sends a delivery to its receiver, whichever kind that is."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from herdbeat.domain.hooks import PROGRAM_TYPES
from herdbeat.domain.outbox import DeliveryRecord
from herdbeat.domain.references import VARIABLES_KEY, MissingVariable, resolve_data
from herdbeat.durations import parse_duration
from herdbeat.notify.base import DEFAULT_TIMEOUT, PROGRAM_TIMEOUT, DeliveryFailed, OutgoingMessage
from herdbeat.notify.channels.chat import send_discord_chat, send_slack_chat
from herdbeat.notify.channels.command import run_command
from herdbeat.notify.channels.discord import DISCORD_API, build_discord
from herdbeat.notify.channels.slack import SLACK_API, build_slack, check_slack
from herdbeat.notify.channels.webhook import build_ntfy, build_webhook
from herdbeat.notify.http import HttpPost, HttpSender
from herdbeat.redaction import register_variables
from herdbeat.threads import call_in_thread

ChannelSpecs = Mapping[str, Mapping[str, object]]
MAX_TIMEOUT = timedelta(minutes=10)
_THREAD_MARGIN = timedelta(seconds=5)
_BASE_VARIABLES = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What a program gets beside the variables that its `env:` names."""


class ChannelDeliverer:
    """Delivers for one node. `channels` returns those of the fleet as they are now. `close` it at the end.

    Secrets are read from `environ` when they are needed, and are in no row of the ledger.
    """

    def __init__(
        self,
        channels: Callable[[], ChannelSpecs],
        environ: Mapping[str, str],
        home: Path,
        *,
        slack_api: str = SLACK_API,
        discord_api: str = DISCORD_API,
    ) -> None:
        self._channels = channels
        self._environ = environ
        self._home = home
        self._slack_api, self._discord_api = slack_api, discord_api
        self._http = HttpSender()

    async def __call__(self, delivery: DeliveryRecord, now: datetime) -> None:
        """Send it once. Raises DeliveryFailed."""
        spec = self._fill_in(self._resolve(delivery.spec))
        message = OutgoingMessage(id=delivery.message_id, spec=spec, payload=delivery.payload, now=now)
        timeout = read_timeout(spec)
        match spec.get("type"):
            case "webhook":
                await self._http.post(build_webhook(message, self._secret(spec, "secret_env"), timeout))
            case "slack":
                token = self._secret(spec, "bot_token_env")
                answer = await self._http.post(build_slack(message, token, timeout, self._slack_api))
                check_slack(answer, is_webhook=bool(message.option("url")))
            case "discord":
                token = self._secret(spec, "bot_token_env")
                await self._http.post(build_discord(message, token, timeout, self._discord_api))
            case "slack_chat":
                token = self._secret(spec, "bot_token_env")
                await send_slack_chat(self._http, message, token, timeout, self._slack_api)
            case "discord_chat":
                token = self._secret(spec, "bot_token_env")
                await send_discord_chat(self._http, message, token, timeout, self._discord_api)
            case "ntfy":
                await self._http.post(build_ntfy(message, self._secret(spec, "token_env"), timeout))
            case "email":
                await self._send_email(message, self._secret(spec, "password_env"), timeout)
            case "command" | "shell":
                folder = self._home / str(spec.get("working_directory") or ".")
                await run_command(message, self._environment(spec), folder, timeout)
            case other:
                raise DeliveryFailed(f'"{other}" is not a type of channel.', is_final=True)

    async def ping(self, url: str) -> str:
        """Call a monitor. Return what went wrong; empty if nothing did."""
        try:
            await self._http.post(HttpPost(url=url, method="GET", body=b"", timeout=DEFAULT_TIMEOUT))
        except DeliveryFailed as error:
            return error.message
        return ""

    async def close(self) -> None:
        await self._http.close()

    def _resolve(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        name = spec.get("notify")
        if not isinstance(name, str) or "type" in spec:
            return spec
        channel = self._channels().get(name)
        if channel is None:
            raise DeliveryFailed(f'There is no channel "{name}" under notify: any more.', is_final=True)
        return channel

    def _fill_in(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return the spec with the values of its variables. Raises DeliveryFailed if one is not set."""
        names = spec.get(VARIABLES_KEY)
        register_variables(map(str, names) if isinstance(names, list | tuple) else (), self._environ)
        try:
            return resolve_data(spec, self._environ)
        except MissingVariable as error:
            raise DeliveryFailed(error.message, is_receiver_down=False) from error

    def _secret(self, spec: Mapping[str, object], key: str) -> str:
        """Return what the named variable holds; empty if none is named. Raises DeliveryFailed if it is not set."""
        name = spec.get(key)
        if not isinstance(name, str):
            return ""
        value = self._environ.get(name, "")
        if not value:
            raise DeliveryFailed(f"The environment variable {name} is not set.", is_receiver_down=False)
        return value

    def _environment(self, spec: Mapping[str, object]) -> dict[str, str]:
        named = spec.get("env")
        names = [*_BASE_VARIABLES, *(map(str, named) if isinstance(named, list | tuple) else ())]
        return {name: self._environ[name] for name in names if name in self._environ}

    async def _send_email(self, message: OutgoingMessage, password: str, time_limit: timedelta) -> None:
        """A mail server may answer a byte a minute: the thread is left alone then, and ends with its socket."""
        from herdbeat.notify.channels.email import send_email  # noqa: PLC0415 -- loads the mail libraries of Python

        try:
            async with asyncio.timeout((time_limit + _THREAD_MARGIN).total_seconds()):
                await call_in_thread(send_email, message, password, time_limit)
        except TimeoutError as error:
            raise DeliveryFailed(f"{message.option('host')} did not take the mail in time.") from error


def read_timeout(spec: Mapping[str, object]) -> timedelta:
    """Return the timeout of a channel as files have it: a duration, or milliseconds."""
    written = spec.get("timeout")
    if isinstance(written, int):
        return min(timedelta(milliseconds=written), MAX_TIMEOUT)
    if written is None:
        return PROGRAM_TIMEOUT if spec.get("type") in PROGRAM_TYPES else DEFAULT_TIMEOUT
    return min(parse_duration(str(written)), MAX_TIMEOUT)
