"""Commands on a fleet elsewhere: `herdbeat status --url https://ops.example.com --token-file ci.token`.

Each command becomes one request to the server there. With `--json` the answer is printed as it is: the objects are
those that the same command prints here.
"""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from zoneinfo import ZoneInfo

from herdbeat.bootstrap.config import detect_system_zone
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import Conflict, HerdbeatError, NotFound, UsageError
from herdbeat.service.commands.base import Forbidden
from herdbeat.service.serialize import JsonObject
from herdbeat.time_phrases import parse_future_time, parse_past_time
from herdbeat.timestamps import format_timestamp, parse_zone

TOKEN_VARIABLE = "HERDBEAT_TOKEN"  # noqa: S105 -- the name of a variable
TIMEOUT_S = 30.0
JSON_LINES = "application/jsonl"
API_PREFIX = "/api/v1"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class ServerUnreachable(HerdbeatError):
    """The server that was named does not answer, or answers something else."""

    exit_status = 7


class RemoteRefused(HerdbeatError):
    """The server refuses the request."""


class TokenRefused(RemoteRefused):
    """The token is unknown, expired or revoked."""

    exit_status = 4


_ERROR_TYPES: dict[int, type[HerdbeatError]] = {
    400: UsageError,
    401: TokenRefused,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: UsageError,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServer:
    """A server, and the token for it. `ca_file` has the certificates to trust; "" for those of this machine."""

    url: str
    token: str
    ca_file: str = ""

    def get(self, path: str, **query: object) -> Any:
        pairs = [
            (name, each)
            for name, value in query.items()
            for each in (value if isinstance(value, tuple) else (value,))
            if each is not None
        ]
        return self._exchange("GET", f"{path}?{urlencode(pairs)}" if pairs else path, None)

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        return self._exchange("POST", path, body)

    def patch(self, path: str, body: Mapping[str, object]) -> Any:
        return self._exchange("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self._exchange("DELETE", path, None)

    def plan_and_apply(self, reason: str) -> Any:
        """Apply the files there, as they are planned now. Raises Conflict if they change in between."""
        etag, _ = self._send("POST", "/config/plan", {})
        return self._exchange("POST", "/config/apply", {"reason": reason}, {"If-Match": etag})

    def stream(self, path: str) -> Iterator[str]:
        """Yield the lines of an answer as they arrive."""
        connection, headers, target = self._open(path, None)
        try:
            connection.request("GET", target, headers={**headers, "Accept": JSON_LINES})
            answer = connection.getresponse()
            if answer.status >= 400:
                _read_answer(answer.status, answer.read(), self.url)
            for line in answer:
                if line.strip():
                    yield line.decode()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _exchange(
        self, method: str, path: str, body: Mapping[str, object] | None, more: Mapping[str, str] | None = None
    ) -> Any:
        return self._send(method, path, body, more)[1]

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None, more: Mapping[str, str] | None = None
    ) -> tuple[str, Any]:
        """Return the ETag and the answer."""
        connection, headers, target = self._open(path, body)
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, target, content, {**headers, **(more or {})})
            answer = connection.getresponse()
            data = _read_answer(answer.status, answer.read(), self.url)
            return answer.getheader("ETag") or "", data
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _open(
        self, path: str, body: Mapping[str, object] | None
    ) -> tuple[http.client.HTTPConnection, dict[str, str], str]:
        address = urlsplit(self.url)
        headers = {"Accept": "application/json", "Origin": f"{address.scheme}://{address.netloc}"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connect(address.scheme, address.hostname or "", address.port)
        return connection, headers, f"{address.path.rstrip('/')}{API_PREFIX}{path}"

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        hint = "Check that the server is running, and that the address is right."
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "Name the certificate that signed it: --ca-file FILE."
        reason = (isinstance(error, OSError) and error.strerror) or str(error)  # without the number of the error
        return ServerUnreachable(f"{self.url} does not answer: {reason}.", hint=hint)

    def _connect(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "https":
            context = ssl.create_default_context(cafile=self.ca_file or None)
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)


def _read_answer(status: int, content: bytes, url: str) -> Any:
    try:
        data = json.loads(content)
    except ValueError as error:
        raise ServerUnreachable(f"{url} is not a herdbeat server.", hint="Check the address.") from error
    if status < 400:
        return data
    if not isinstance(data, dict) or "detail" not in data:
        raise ServerUnreachable(f"{url} answered {status}.", hint="Check the address.")
    raise _ERROR_TYPES.get(status, RemoteRefused)(str(data["detail"]), hint=str(data.get("hint", "")))


def open_remote(args: ParsedArgs, context: Context) -> RemoteServer:
    """Raises UsageError for an address that would send the token in clear text, or a file that cannot be read."""
    url = args.value(flags.SERVER) or args.value(flags.URL) or ""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise UsageError(f'"{url[:80]}" is not the address of a server.', hint="Write for example https://host:3232.")
    if address.scheme == "http" and address.hostname not in _LOOPBACK_NAMES:
        raise UsageError("Without https, the token would be sent in clear text.", hint="Use an https:// address.")
    ca_file = args.value(flags.CA_FILE)
    if ca_file is not None and not (context.folder / ca_file).is_file():
        raise UsageError(f"{ca_file} is no file.", hint="Name a file with certificates in PEM format.")
    return RemoteServer(
        url=url, token=_read_token(args, context), ca_file="" if ca_file is None else str(context.folder / ca_file)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRequest:
    """One command for a server: its arguments, and what its times count from."""

    server: RemoteServer
    args: ParsedArgs
    now: datetime
    zone: ZoneInfo
    context: Context

    def past(self, option: flags.Option) -> str | None:
        """Return a moment in the past as the server reads it. Raises TimeParseError."""
        text = self.args.value(option)
        return None if text is None else format_timestamp(parse_past_time(text, self.now, self.zone))

    def future(self, option: flags.Option) -> str | None:
        text = self.args.value(option)
        return None if text is None else format_timestamp(parse_future_time(text, self.now, self.zone))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCommand:
    """How a command asks a server, and the options that it asks with. All others are refused."""

    call: Callable[[RemoteRequest], Any]
    options: tuple[flags.Option, ...] = ()


def _read_token(args: ParsedArgs, context: Context) -> str:
    path = args.value(flags.TOKEN_FILE)
    if path is None:
        return context.environ.get(TOKEN_VARIABLE, "")
    try:
        return (context.folder / Path(path)).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(
            f"{path} cannot be read: {reason}.", hint="The file contains the token and nothing else."
        ) from error


def run_remote(name: str, args: ParsedArgs, context: Context) -> Output:
    """Run one of the commands in REMOTE_COMMANDS on the server that `--url` names."""
    from herdbeat.cli.remote_commands import REMOTE_COMMANDS  # noqa: PLC0415 -- it builds on this module

    command = REMOTE_COMMANDS[name]
    _refuse_other_options(args, (*command.options, *_SHARED_OPTIONS))
    zone = parse_zone(args.value(flags.ZONE) or "UTC") if args.has(flags.UTC) or args.value(flags.ZONE) else None
    request = RemoteRequest(
        server=open_remote(args, context),
        args=args,
        now=context.clock.now(),
        zone=zone or detect_system_zone(context.environ),
        context=context,
    )
    data: JsonObject = command.call(request)
    return Output(json=lambda: data, lines=_lines(context.terminal, data), shows_secret="token" in data)


_SHARED_OPTIONS = (
    *(flags.URL, flags.SERVER, flags.TOKEN_FILE, flags.CA_FILE, flags.JSON, flags.JSONL, flags.PLAIN, flags.WIDE),
    *(flags.ZONE, flags.UTC, flags.YES, *flags.COMMON_FLAGS),
)
"""Options that say how to ask and how to print."""


def _refuse_other_options(args: ParsedArgs, allowed: Sequence[flags.Option]) -> None:
    """An option that the server is not asked with would be ignored in silence. Raises UsageError."""
    known = {each.key for each in allowed}
    given = next((key for key in (*args.values, *args.repeated, *args.switches) if key not in known), None)
    if given is not None:
        name = "--config" if given == flags.CONFIG.key else f"--{given.replace('_', '-')}"
        raise UsageError(f"{name} cannot be used with --url.", hint="Leave it out, or run the command on that machine.")


def _lines(terminal: Terminal, data: JsonObject) -> Iterator[str]:
    """Lists as tables of their plain values, everything else as `key: value`; `--json` has all of it."""
    text, items = data.get("text"), data.get("items")
    if isinstance(text, str):
        yield f"{printable(str(data.get('schedule', '')))}  {printable(text)}"
    elif isinstance(items, list):
        yield from _table(terminal, [each for each in items if isinstance(each, dict)])
    else:
        for key, value in data.items():
            if value is not None and not isinstance(value, dict | list):
                yield f"{key}: {_cell(value)}"
            elif isinstance(value, list) and value:
                yield f"{key}:"
                yield from (f"  {_cell(each)}" for each in value[:20])


_COLUMNS = (
    *(
        "id",
        "schedule",
        "target",
        "node",
        "name",
        "state",
        "status",
        "outcome",
        "result",
        "reason",
        "when",
        "what",
        "who",
    ),
    *(
        "subject",
        "starts_at",
        "started_at",
        "finished_at",
        "due_at",
        "at",
        "host",
        "pid",
        "changed",
        "refused",
        "error",
    ),
)


def _table(terminal: Terminal, items: Sequence[Mapping[str, object]]) -> list[str]:
    if not items:
        return ["Nothing."]
    columns = [each for each in _COLUMNS if any(each in item for item in items)]
    rows = [[_cell(item.get(each)) for each in columns] for item in items]
    return terminal.format_table([[each.upper() for each in columns], *rows])


def _cell(value: object) -> str:
    if isinstance(value, Mapping):
        plain = {key: item for key, item in value.items() if item is not None and not isinstance(item, dict | list)}
        return printable(", ".join(f"{key} {item}" for key, item in plain.items()))
    return "" if value is None else printable(str(value))
