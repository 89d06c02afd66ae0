"""One call from its first byte to its answer. The caller learns the status and nothing else."""

import asyncio
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from herdbeat.bootstrap.handle import Reader
from herdbeat.bootstrap.server_spec import read_environment
from herdbeat.domain.token import TokenRole, TokenScope
from herdbeat.domain.webhook import HookMethod
from herdbeat.domain.webhook_call import EventAnswer, IncomingEvent, RefusedCall
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError, NotFound, StoreUnavailable
from herdbeat.redaction import register_secrets
from herdbeat.server.auth import get_authenticator, read_bearer
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.problems import build_problem
from herdbeat.server.webhooks.event_queue import EventQueue, NoAnswer
from herdbeat.service.commands.base import Actor, ReceivedEvents, ReceiveEvents, Scope
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.commands.tokens import hash_token
from herdbeat.service.queries.webhooks import find_hook_by_id, list_hooks, read_hook
from herdbeat.service.webhooks.intake import (
    CallRefused,
    HookCall,
    HookReply,
    HookSchedule,
    RefusalReason,
    read_call,
)
from herdbeat.service.webhooks.refused_calls import (
    RefusedCalls,
    clean_text,
    load_refused_calls,
    save_refused_calls,
)
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)

BODY_TIMEOUT_S = 30.0
MAX_DISCARDED_BYTES = 8 * 1024 * 1024
"""Bytes beyond the limit that are read and dropped. A longer body is cut off, and its connection with it."""

SAVE_INTERVAL_S = 1.0
HOOK_CACHE_S = 1.0
HOOK_LIST_CACHE_S = 5.0
MAX_CACHED_HOOKS = 2_000
_ACTOR = Actor(name="webhook", scopes=frozenset({Scope.TRIGGER}), is_remote=True)
_STATUSES = {
    RefusalReason.UNKNOWN: 404,
    RefusalReason.DISABLED: 404,
    RefusalReason.NOT_PROVEN: 401,
    RefusalReason.TOO_LARGE: 413,
    RefusalReason.QUEUE_FULL: 429,
    RefusalReason.NO_ANSWER: 503,
    RefusalReason.REPLAYED: 200,
}
_PROBLEMS = {
    401: (Code.UNAUTHENTICATED, "The call is not accepted."),
    404: (Code.NOT_FOUND, "There is no such webhook."),
    413: (Code.TOO_LARGE, "The body is too large."),
    429: (Code.TOO_MANY_REQUESTS, "Too many calls wait."),
    503: (Code.STORE_UNAVAILABLE, "The call was not recorded. Send it again."),
}
_RETRY_AFTER = {429: "30", 503: "5"}
_REFUSING_ANSWERS = {
    EventAnswer.FULL: RefusalReason.QUEUE_FULL,
    EventAnswer.DISABLED: RefusalReason.DISABLED,
    EventAnswer.UNKNOWN: RefusalReason.UNKNOWN,
    EventAnswer.REPLAYED: RefusalReason.REPLAYED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundHook:
    """A webhook schedule, and the secrets that may sign its calls."""

    hook: HookSchedule
    secrets: tuple[str, ...]


class HookReceiver:
    """Receives the calls of one fleet."""

    def __init__(self, gateway: FleetGateway) -> None:
        self._gateway = gateway
        self._hooks = HookLookup(gateway)
        self._queue = EventQueue(self._deliver)
        self._location = gateway.handle.path
        # Those of a database are read on request: a server starts also while its database is not available.
        self.refused = load_refused_calls(self._location) if isinstance(self._location, Path) else RefusedCalls()
        self._saver: asyncio.Task[None] | None = None

    async def receive(self, request: Request, target: str, name: str) -> Response:
        label, seen_bytes = f"{target}/{name}" if target else name, 0
        try:
            # The body comes first: the answer to a large one must not reveal which webhooks exist.
            body = await self._read_body(request)
            seen_bytes = len(body)
            found = await self._find(target, name)
            label = found.hook.label
            _require_no_foreign_page(request, found)
            now = self._gateway.handle.now
            token = await self._find_token(request, found)
            call = HookCall(
                headers=request.headers.items(), body=body, received_at=now, token_name=token, random_id=uuid4().hex
            )
            return await self._answer(found, call)
        except CallRefused as refused:
            return self._refuse(request, refused, label, seen_bytes)

    def list_refused(self, schedule: str | None = None) -> list[RefusedCall]:
        """Return the newest first: of this server, or of all that share a database. Raises StoreUnavailable."""
        if isinstance(self._location, Path):
            return self.refused.newest(schedule)
        with self._gateway.hide_outage_details():
            stored = load_refused_calls(self._location).newest(schedule)
        unsaved = [each for each in self.refused.unsaved if schedule in (None, each.schedule)]
        return [*reversed(unsaved), *stored]

    async def _find(self, target: str, name: str) -> FoundHook:
        is_known, found = self._hooks.find_cached(target, name)
        try:
            found = found if is_known else await call_in_thread(self._hooks.find, target, name)
        except HerdbeatError as error:
            raise CallRefused(RefusalReason.NO_ANSWER, error.message) from error
        if found is None:
            raise CallRefused(RefusalReason.UNKNOWN)
        return found

    async def _read_body(self, request: Request) -> bytes:
        """Keep at most as much as a call may have. A little more is read, or its sender would not get the answer."""
        max_bytes, parts, size = self._gateway.spec.max_hook_body, [], 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                async for part in request.stream():
                    size += len(part)
                    if size > max_bytes + MAX_DISCARDED_BYTES:
                        break
                    if size <= max_bytes:
                        parts.append(part)
        except TimeoutError as error:
            raise CallRefused(RefusalReason.TOO_LARGE, "the body did not arrive in time") from error
        if size > max_bytes:
            raise CallRefused(RefusalReason.TOO_LARGE, f"longer than {max_bytes} bytes")
        return b"".join(parts)

    async def _find_token(self, request: Request, found: FoundHook) -> str:
        text = read_bearer(request)
        if found.hook.auth.method is not HookMethod.TOKEN or not text:
            return ""
        try:
            return await call_in_thread(self._hooks.find_token, found.hook, text)
        except HerdbeatError as error:
            raise CallRefused(RefusalReason.NO_ANSWER, error.message) from error

    async def _answer(self, found: FoundHook, call: HookCall) -> Response:
        event = read_call(found.hook, found.secrets, call)
        if isinstance(event, HookReply):
            return JSONResponse(dict(event.content))
        try:
            answer = await self._queue.put(event)
        except NoAnswer as error:
            raise CallRefused(RefusalReason.NO_ANSWER, str(error)) from error
        reason = _REFUSING_ANSWERS.get(answer)
        if reason is not None and reason is not RefusalReason.REPLAYED:
            raise CallRefused(reason)
        if reason is RefusalReason.REPLAYED:
            raise CallRefused(reason, f"the content was accepted before; its new id is {event.event_id}")
        return JSONResponse({"status": answer}, status_code=202 if answer is EventAnswer.ACCEPTED else 200)

    def _deliver(self, events: tuple[IncomingEvent, ...]) -> Delivery[ReceivedEvents]:
        return self._gateway.deliver(_ACTOR, ReceiveEvents(events=events))

    def _refuse(self, request: Request, refused: CallRefused, label: str, size: int) -> Response:
        status = _STATUSES[refused.reason]
        call = RefusedCall(
            at=self._gateway.handle.now,
            schedule=clean_text(label),
            peer=get_authenticator(request).find_client_address(request),
            size=size or _declared_bytes(request),
            status=status,
            reason=refused.reason,
            detail=clean_text(refused.detail),
        )
        self._keep(call)
        if status == 200:
            return JSONResponse({"status": EventAnswer.DUPLICATE})
        code, detail = _PROBLEMS[status]
        answer = build_problem(request, status, code, detail)
        if status in _RETRY_AFTER:
            answer.headers["Retry-After"] = _RETRY_AFTER[status]
        return answer

    def _keep(self, call: RefusedCall) -> None:
        self.refused.add(call)
        if self._saver is None or self._saver.done():
            self._saver = asyncio.create_task(self._save_soon(), name="refused calls")

    async def _save_soon(self) -> None:
        """Write what has come together, at most once a second."""
        while not self.refused.is_saved:
            # Taken here, not in the thread: calls that arrive meanwhile change what it would read.
            unsaved = self.refused.take_unsaved()
            try:
                await call_in_thread(save_refused_calls, self._location, unsaved)
            except (OSError, StoreUnavailable) as error:
                self.refused.put_back(unsaved)
                log.warning("refused calls not saved error=%s they stay in memory", error)
            await asyncio.sleep(SAVE_INTERVAL_S)


def _require_no_foreign_page(request: Request, found: FoundHook) -> None:
    """Refuse a call without proof from a browser: it is for programs that reach this server, not for any web page.

    A page of any site can send a form, or text, to a server on the machine or in the network of its visitor.
    """
    if found.hook.auth.method is HookMethod.NONE and get_authenticator(request).is_from_foreign_page(request):
        raise CallRefused(RefusalReason.NOT_PROVEN, "a browser sends it for a page of another site")


def _declared_bytes(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


class HookLookup:
    """Finds the schedule of a call, and the secrets of its signature, in the ledger and the environment.

    Runs in threads of requests. Both are kept for a second, because calls come in bursts.
    """

    def __init__(self, gateway: FleetGateway) -> None:
        self._gateway = gateway
        self._found: dict[tuple[str, str], tuple[float, FoundHook | None]] = {}
        self._all: tuple[float, tuple[HookSchedule, ...]] = (float("-inf"), ())

    def find_cached(self, target: str, name: str) -> tuple[bool, FoundHook | None]:
        """Return whether it is known without reading the ledger, and the hook if there is one."""
        looked_at, found = self._found.get((target, name), (float("-inf"), None))
        return time.monotonic() - looked_at < HOOK_CACHE_S, found

    def find(self, target: str, name: str) -> FoundHook | None:
        """Return the hook of a schedule; None if there is none. An empty target looks by id. Raises HerdbeatError."""
        is_known, found = self.find_cached(target, name)
        if is_known:
            return found
        if not self._gateway.handle.has_ledger:
            raise StoreUnavailable("the fleet has never been started")  # a sender that hears 404 does not come again
        if len(self._found) >= MAX_CACHED_HOOKS:
            self._found.clear()
        try:
            with self._gateway.open() as handle:
                reader = handle.require_reader()
                hook = read_hook(reader, target, name) if target else find_hook_by_id(self._list_all(reader), name)
        except NotFound:
            hook = None
        found = None if hook is None else FoundHook(hook=hook, secrets=self._read_secrets(hook))
        self._found[target, name] = (time.monotonic(), found)
        return found

    def find_token(self, hook: HookSchedule, text: str) -> str:
        """Return the name of a token that may call this hook; empty if there is none."""
        with self._gateway.open() as handle:
            found = handle.require_reader().find_token(hash_token(text))
            if found is None or not found.is_valid(handle.now):
                return ""
        scope = TokenScope.parse(found.scope)
        names = (hook.label, hook.id_text)
        return found.name if scope and scope.role is TokenRole.HOOK and scope.subject in names else ""

    def _list_all(self, reader: Reader) -> tuple[HookSchedule, ...]:
        """A caller that tries many ids must not make us read all schedules for each of them."""
        listed_at, hooks = self._all
        if time.monotonic() - listed_at > HOOK_LIST_CACHE_S:
            hooks = tuple(list_hooks(reader))
            self._all = (time.monotonic(), hooks)
        return hooks

    def _read_secrets(self, hook: HookSchedule) -> tuple[str, ...]:
        environ = read_environment(self._gateway.spec.home, self._gateway.environ)
        secrets = [environ[name] for name in hook.auth.secret_env if environ.get(name)]
        if hook.auth.has_file_secret:
            secrets += self._read_file_secret(hook)
        register_secrets(secrets)
        return tuple(secrets)

    def _read_file_secret(self, hook: HookSchedule) -> list[str]:
        """A secret that is written in the file itself is read from there: the ledger does not have it.

        Raises HerdbeatError while the file is invalid: the sender is to try again, and is not refused as unproven.
        """
        schedule = self._gateway.load_own_fleet().fleet.schedule(hook.id_text)
        return [schedule.secret] if schedule is not None and schedule.secret else []
