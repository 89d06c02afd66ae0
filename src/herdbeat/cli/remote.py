"""Commands on a fleet elsewhere: `herdbeat status --url https://ops.example.com --token-file ci.token`.

Each command becomes one request to the server there. With `--json` the answer is printed as it is: the objects are
those that the same command prints here.
"""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.output.terminal import Terminal, printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import Conflict, HerdbeatError, NotFound, UsageError
from herdbeat.service.commands.base import Forbidden
from herdbeat.service.serialize import JsonObject

TOKEN_VARIABLE = "HERDBEAT_TOKEN"  # noqa: S105 -- the name of a variable
TIMEOUT_S = 30.0
API_PREFIX = "/api/v1"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_ERROR_TYPES: dict[int, type[HerdbeatError]] = {400: UsageError, 403: Forbidden, 404: NotFound, 409: Conflict}


class ServerUnreachable(HerdbeatError):
    """The server that was named does not answer, or answers something else."""

    exit_status = 7


class RemoteRefused(HerdbeatError):
    """The server refuses the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServer:
    """A server, and the token for it."""

    url: str
    token: str

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

    def delete(self, path: str) -> Any:
        return self._exchange("DELETE", path, None)

    def _exchange(self, method: str, path: str, body: Mapping[str, object] | None) -> Any:
        address = urlsplit(self.url)
        headers = {"Accept": "application/json", "Origin": f"{address.scheme}://{address.netloc}"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        content = None if body is None else json.dumps(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connect(address.scheme, address.hostname or "", address.port)
        try:
            connection.request(method, f"{address.path.rstrip('/')}{API_PREFIX}{path}", content, headers)
            answer = connection.getresponse()
            return _read_answer(answer.status, answer.read(), self.url)
        except (OSError, http.client.HTTPException) as error:
            hint = "Is it running there? Is the address right?"
            raise ServerUnreachable(f"{self.url} does not answer: {error}.", hint=hint) from error
        finally:
            connection.close()

    def _connect(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "https":
            context = ssl.create_default_context()
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
    url = args.value(flags.URL) or ""
    address = urlsplit(url)
    if args.value(flags.CONFIG) is not None:
        raise UsageError("--url and --config cannot be combined.", hint="Use one of them.")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise UsageError(f'"{url[:80]}" is not the address of a server.', hint="Write for example https://host:3232.")
    if address.scheme == "http" and address.hostname not in _LOOPBACK_NAMES:
        raise UsageError("Without https, the token would be sent in clear text.", hint="Use an https:// address.")
    return RemoteServer(url=url, token=_read_token(args, context))


def _read_token(args: ParsedArgs, context: Context) -> str:
    path = args.value(flags.TOKEN_FILE)
    if path is None:
        return context.environ.get(TOKEN_VARIABLE, "")
    try:
        return (context.folder / Path(path)).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}.", hint="The file contains the token and nothing else."
        ) from error


def run_remote(name: str, args: ParsedArgs, context: Context) -> Output:
    """Run one of the commands in REMOTE_COMMANDS on the server that `--url` names."""
    server = open_remote(args, context)
    data: JsonObject = REMOTE_COMMANDS[name](server, args)
    return Output(json=lambda: data, lines=_lines(context.terminal, data))


def _lines(terminal: Terminal, data: JsonObject) -> Iterator[str]:
    """Lists as tables of their plain values, everything else as `key: value`; `--json` has all of it."""
    text, items = data.get("text"), data.get("items")
    if isinstance(text, str):
        yield f"{printable(str(data.get('schedule', '')))}  {printable(text)}"
    elif isinstance(items, list):
        yield from _table(terminal, [each for each in items if isinstance(each, dict)])
    else:
        for key, value in data.items():
            if not isinstance(value, dict | list):
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
        return printable(", ".join(f"{key} {item}" for key, item in value.items() if not isinstance(item, dict | list)))
    return "" if value is None else printable(str(value))


def _schedule_path(selector: str) -> str:
    target, slash, name = selector.partition("/")
    return f"/schedules/{quote(target, safe='')}/{quote(name if slash else 'default', safe='')}"


def _count(args: ParsedArgs) -> str | None:
    return args.value(flags.COUNT)


def _status(server: RemoteServer, args: ParsedArgs) -> Any:
    return server.get("/status", selector=args.positional(0))


def _list(server: RemoteServer, args: ParsedArgs) -> Any:
    tags, groups = args.all_values(flags.TAG), args.all_values(flags.GROUP)
    return server.get(
        "/schedules",
        target=args.positionals,
        tag=tags,
        group=groups,
        state=args.value(flags.IN_STATE),
        limit=_count(args) or 200,
        cursor=args.value(flags.CURSOR),
    )


def _show(server: RemoteServer, args: ParsedArgs) -> Any:
    selector = args.positionals[0]
    kind, colon, number = selector.partition(":")
    if colon and kind in ("run", "beat"):
        return server.get(f"/{kind}s/{quote(number, safe='')}")
    if "/" in selector:
        return server.get(_schedule_path(selector))
    first, *others = (_schedule_path(selector), f"/targets/{quote(selector)}", f"/runs/{quote(selector)}")
    try:
        return server.get(first)
    except NotFound as error:
        for path in others:
            try:
                return server.get(path)
            except NotFound:
                continue
        raise error from None


def _explain(server: RemoteServer, args: ParsedArgs) -> Any:
    return server.get(f"{_schedule_path(args.positionals[0])}/explain", at=args.value(flags.AT))


def _next(server: RemoteServer, args: ParsedArgs) -> Any:
    return server.get("/next", selector=args.positional(0), count=_count(args))


def _runs(server: RemoteServer, args: ParsedArgs) -> Any:
    status, cursor = args.value(flags.RUN_STATUS), args.value(flags.CURSOR)
    return server.get("/runs", schedule=args.positional(0), status=status, limit=_count(args) or 20, cursor=cursor)


def _beats(server: RemoteServer, args: ParsedArgs) -> Any:
    return server.get(
        "/beats",
        schedule=args.positional(0),
        outcome=args.value(flags.OUTCOME),
        result=args.value(flags.RESULT),
        limit=_count(args),
        cursor=args.value(flags.CURSOR),
    )


def _changes(server: RemoteServer, args: ParsedArgs) -> Any:
    return server.get("/changes", selector=args.positional(0), limit=_count(args), cursor=args.value(flags.CURSOR))


def _nodes(server: RemoteServer, args: ParsedArgs) -> Any:
    return server.get("/nodes", limit=_count(args), stopped="1" if args.has(flags.ALL) else None)


def _run(server: RemoteServer, args: ParsedArgs) -> Any:
    selector = args.positionals[0]
    if (name := args.value(flags.SCHEDULE)) is not None:
        selector = f"{selector}/{name}"
    body: dict[str, object] = {
        "queue": args.has(flags.QUEUE),
        "reset": args.has(flags.RESET),
        "reason": args.value(flags.REASON) or "",
    }
    if args.value(flags.PROMPT) is not None:
        body["prompt"] = args.value(flags.PROMPT)
    return server.post(f"{_schedule_path(selector)}/runs", body)


def _bulk(action: str, **options: flags.Option) -> Callable[[RemoteServer, ParsedArgs], Any]:
    def change(server: RemoteServer, args: ParsedArgs) -> Any:
        select = {
            "names": list(args.positionals),
            "tag": list(args.all_values(flags.TAG)),
            "group": list(args.all_values(flags.GROUP)),
            "all": args.has(flags.ALL),
        }
        if args.has(flags.ALL) and not args.has(flags.YES):
            raise UsageError("This changes every schedule of the server.", hint="Confirm with --yes.")
        values = {name: args.value(option) for name, option in options.items() if args.value(option) is not None}
        given: dict[str, object] = {**values, "reason": args.value(flags.REASON) or ""}
        if "count" in given:
            given["count"] = int(str(given["count"])) if str(given["count"]).isdecimal() else -1
        if action in ("pause", "disable"):
            given["cancel_running"] = args.has(flags.CANCEL_RUNNING)
        clears = action == "hint" and args.has(flags.CLEAR)
        if clears:
            from herdbeat.cli.commands.hint import parse_hint_id  # noqa: PLC0415 -- only for --id

            given |= {} if (hint_id := parse_hint_id(args)) is None else {"hint": hint_id}
        body = {"select": select, "action": "clear_hints" if clears else action, "args": given}
        return server.post("/bulk", {**body, "dry_run": args.has(flags.DRY_RUN)})

    return change


def _on_run(action: str) -> Callable[[RemoteServer, ParsedArgs], Any]:
    def change(server: RemoteServer, args: ParsedArgs) -> Any:
        if len(args.positionals) != 1:
            raise UsageError(f"--url can {action} one run at a time.", hint="Name the id of one run.")
        body = {"force": args.has(flags.FORCE), "reason": args.value(flags.REASON) or ""}
        return server.post(f"/runs/{quote(args.positionals[0], safe='')}/{action}", body)

    return change


REMOTE_COMMANDS: dict[str, Callable[[RemoteServer, ParsedArgs], Any]] = {
    "status": _status,
    "list": _list,
    "show": _show,
    "explain": _explain,
    "next": _next,
    "runs": _runs,
    "beats": _beats,
    "changes": _changes,
    "nodes": _nodes,
    "run": _run,
    "pause": _bulk("pause", **{"for": flags.FOR, "until": flags.UNTIL}),
    "resume": _bulk("resume"),
    "enable": _bulk("enable"),
    "disable": _bulk("disable"),
    "skip": _bulk("skip", count=flags.COUNT),
    "reset": _bulk("reset"),
    "hint": _bulk("hint", every=flags.EVERY, at=flags.AT, ttl=flags.FOR),
    "cancel": _on_run("cancel"),
    "retry": _on_run("retry"),
}
