"""`herdbeat webhook test` calls a schedule as its sender would; `webhook refused` lists calls that got no beat."""

import http.client
import json
import shlex
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from urllib.parse import urlsplit
from uuid import uuid4

from herdbeat.bootstrap.server_process import format_server_url
from herdbeat.bootstrap.server_spec import read_environment
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import FleetHandle, open_fleet_handle
from herdbeat.cli.output.render import ErrorLine, Notice, Output
from herdbeat.cli.output.symbols import format_time
from herdbeat.cli.output.terminal import printable
from herdbeat.cli.parser import ParsedArgs
from herdbeat.domain.webhook import HookMethod
from herdbeat.domain.webhook_call import RefusedCall
from herdbeat.errors import NotFound, UsageError
from herdbeat.service.queries.selectors import find_single_schedule
from herdbeat.service.queries.webhooks import read_hook
from herdbeat.service.webhooks.intake import HookSchedule, build_preset
from herdbeat.service.webhooks.refused_calls import load_refused_calls, serialize_refused_call
from herdbeat.service.webhooks.signatures import parse_payload, sign_call

TIMEOUT_S = 15.0
EXIT_REFUSED = 1
_HEADINGS = ["WHEN", "SCHEDULE", "FROM", "BYTES", "STATUS", "REASON"]


def run_test(args: ParsedArgs, context: Context) -> Output:
    """Sign a body, print the call as a curl command, and send it unless --dry-run is given."""
    handle = open_fleet_handle(args, context)
    hook = _find_hook(handle, args.positionals[0])
    body = _build_body(hook, args.value(flags.DATA), handle.clock.now())
    url = f"{_server_url(handle, args)}/hooks/{hook.id_text}"
    headers = {"content-type": "application/json", **_build_headers(handle, context, hook, body)}
    shown = [_format_curl(url, _hide_secret(hook, headers), body)]
    if args.has(flags.DRY_RUN) or hook.auth.method is HookMethod.TOKEN:
        notes = ["Create a token: herdbeat token create NAME --scope hook:" + hook.id_text]
        notices = notes if hook.auth.method is HookMethod.TOKEN else []
        return Output(json=lambda: {"curl": shown[0], "status": None}, lines=shown, notices=notices)
    status, text = _send(url, headers, body)
    is_accepted = status in (200, 202)
    why = "" if is_accepted else f" The reason: herdbeat webhook refused {hook.label}"
    line = f"{status} {printable(text[:200])}{why}"
    return Output(
        json=lambda: {"curl": shown[0], "status": status, "answer": text},
        lines=[*shown, Notice(line) if is_accepted else ErrorLine(line)],
        exit_status=0 if is_accepted else EXIT_REFUSED,
    )


def run_refused(args: ParsedArgs, context: Context) -> Output:
    handle = open_fleet_handle(args, context)
    wanted = next(iter(args.positionals), None)
    calls = load_refused_calls(handle.path).newest(wanted)
    lines: list[str] = [Notice("No webhook call was refused.")]
    if calls:
        lines = context.terminal.format_table([_HEADINGS, *(_call_row(handle, each) for each in calls)], shrink=(5,))
    return Output(json=lambda: {"items": [serialize_refused_call(each) for each in calls]}, lines=lines)


def _find_hook(handle: FleetHandle, selector: str) -> HookSchedule:
    reader = handle.require_reader()
    record = find_single_schedule(reader, selector)
    hook = read_hook(reader, record.target, record.name)
    if hook is None:
        raise UsageError(f"{record.label} takes no webhook calls.", hint="Use a schedule of type: webhook.")
    return hook


def _build_body(hook: HookSchedule, written: str | None, now: datetime) -> bytes:
    """Return what to send: by default with an id, because the same signed text again would be a replay.

    A sender that signs the time as a part of the body, as Linear does, puts it there.
    """
    text = written or json.dumps({"test": True, "id": f"test-{uuid4().hex[:12]}"})
    path = build_preset(hook.auth).timestamp_path if hook.auth.method is HookMethod.SIGNATURE else ""
    payload = parse_payload(text.encode())
    if path and isinstance(payload, dict) and path not in payload:
        text = json.dumps({**payload, path: int(now.timestamp() * 1000)})
    return text.encode()


def _build_headers(handle: FleetHandle, context: Context, hook: HookSchedule, body: bytes) -> dict[str, str]:
    delivery = f"test-{uuid4().hex[:12]}"
    if hook.auth.method is HookMethod.TOKEN:
        return {"authorization": "Bearer $TOKEN"}
    if hook.auth.method is not HookMethod.SIGNATURE:
        return {"idempotency-key": delivery}
    environ = read_environment(handle.fleet.home, context.environ)
    secret = next((environ[name] for name in hook.auth.secret_env if environ.get(name)), "")
    if not secret and hook.auth.has_file_secret and (schedule := handle.fleet.schedule(hook.id_text)) is not None:
        secret = schedule.secret or ""
    if not secret:
        names = " or ".join(hook.auth.secret_env) or "secret_env"
        raise NotFound(f"{hook.label} has no secret here: {names} is not set.", hint="Set it, or put it into .env.")
    return sign_call(build_preset(hook.auth), secret, body, delivery, handle.clock.now())


def _hide_secret(hook: HookSchedule, headers: Mapping[str, str]) -> dict[str, str]:
    """A sender that does not sign sends the secret itself: the terminal shows the name of its variable."""
    if hook.auth.method is not HookMethod.SIGNATURE or build_preset(hook.auth).signed is not None:
        return dict(headers)
    (name,) = hook.auth.secret_env[:1] or ("SECRET",)
    return {**headers, build_preset(hook.auth).headers[0]: f"${name}"}


def _format_curl(url: str, headers: Mapping[str, str], body: bytes) -> str:
    def quote(text: str) -> str:
        return f'"{text}"' if "$" in text else shlex.quote(text)

    written = " ".join(f"-H {quote(f'{name}: {value}')}" for name, value in headers.items())
    return f"curl -X POST {shlex.quote(url)} {written} --data-binary {shlex.quote(body.decode())}"


def _server_url(handle: FleetHandle, args: ParsedArgs) -> str:
    settings, port = handle.fleet.server, args.value(flags.PORT)
    return format_server_url(settings, int(port) if port and port.isdecimal() else settings.port)


def _send(url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Raises NotFound if nothing listens there."""
    address = urlsplit(url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    with closing(kind(address.hostname or "", address.port, timeout=TIMEOUT_S)) as connection:
        try:
            connection.request("POST", address.path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read(4_096).decode("utf-8", "replace")
        except OSError as error:
            hint = "Start it: herdbeat up. If it has another port: --port N"
            raise NotFound(f"No server answers at {address.netloc}: {error}.", hint=hint) from error


def _call_row(handle: FleetHandle, call: RefusedCall) -> list[str]:
    why = f"{call.reason}: {call.detail}" if call.detail else call.reason
    return [
        format_time(call.at, handle.now, handle.zone),
        printable(call.schedule),
        printable(call.peer),
        str(call.size),
        str(call.status),
        printable(why),
    ]
