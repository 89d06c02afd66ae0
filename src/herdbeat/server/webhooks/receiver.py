"""One call from its first byte to its answer. The caller learns the status and nothing else."""

import asyncio
import logging
from pathlib import Path
from uuid import uuid4

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from herdbeat.domain.webhook import HookMethod
from herdbeat.domain.webhook_call import EventAnswer, IncomingEvent, RefusedCall
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError, StoreUnavailable
from herdbeat.server.auth import get_authenticator
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.problems import build_problem
from herdbeat.server.webhooks.event_queue import EventQueue, NoAnswer
from herdbeat.server.webhooks.hook_directory import FoundHook, HookDirectory
from herdbeat.service.commands.base import Actor, ReceivedEvents, ReceiveEvents, Scope
from herdbeat.service.commands.dispatch import Delivery
from herdbeat.service.webhooks.intake import CallRefused, HookCall, HookReply, RefusalReason, read_call
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


class HookReceiver:
    """Receives the calls of one fleet."""

    def __init__(self, gateway: FleetGateway) -> None:
        self._gateway = gateway
        self._directory = HookDirectory(gateway)
        self._queue = EventQueue(self._deliver)
        self._location = gateway.handle.path
        # Those of a database come when somebody asks: a server starts also while its database does not.
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
        is_known, found = self._directory.cached(target, name)
        try:
            found = found if is_known else await call_in_thread(self._directory.find, target, name)
        except HerdbeatError as error:
            raise CallRefused(RefusalReason.NO_ANSWER, error.message) from error
        if found is None:
            raise CallRefused(RefusalReason.UNKNOWN)
        return found

    async def _read_body(self, request: Request) -> bytes:
        """Keep at most as much as a call may have. A little more is read, or its sender would not hear the answer."""
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
        values = request.headers.getlist("authorization")
        scheme, _, text = (values[0] if len(values) == 1 else "").partition(" ")
        if found.hook.auth.method is not HookMethod.TOKEN or scheme.lower() != "bearer":
            return ""
        try:
            return await call_in_thread(self._directory.find_token, found.hook, text.strip())
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
    """What proves nothing is for programs that reach this server: not for every page that its users visit.

    A page of any site can send a form, or text, to a server on the machine or in the network of its visitor.
    """
    if found.hook.auth.method is HookMethod.NONE and get_authenticator(request).is_from_foreign_page(request):
        raise CallRefused(RefusalReason.NOT_PROVEN, "a browser sends it for a page of another site")


def _declared_bytes(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
