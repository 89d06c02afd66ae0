"""The routes of the dashboard. Each page is a function from the context of a request to HTML; so are errors."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from herdbeat.bootstrap.handle import FleetHandle, Reader
from herdbeat.dashboard.host import PageHost, Visitor
from herdbeat.dashboard.notices import NoticeBoard, PageNotice
from herdbeat.dashboard.preferences import NOTICE_COOKIE, Preferences
from herdbeat.dashboard.render import PageFrame, load_static_files, render, static_version
from herdbeat.errors import HerdbeatError, NotFound
from herdbeat.service.commands.base import Actor

MAX_FORM_FIELDS = 5_000
MAX_COUNTED_OVERDUE = 1_000
NOBODY = Actor(name="nobody", scopes=frozenset())
STATIC_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}


@dataclass(slots=True, kw_only=True)
class PageContext:
    """One request for a page: the fleet with a reader, the visitor, and the parts of the address."""

    host: PageHost
    board: NoticeBoard
    handle: FleetHandle
    frame: PageFrame
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def reader(self) -> Reader:
        return self.handle.require_reader()

    @property
    def is_running(self) -> bool:
        return self.frame.is_running


@dataclass(frozen=True, slots=True, kw_only=True)
class FormContext:
    """One submitted form. `fields` may name a field several times. `frame` is that of a page that answers it."""

    host: PageHost
    board: NoticeBoard
    visitor: Visitor
    frame: PageFrame
    fields: tuple[tuple[str, str], ...]
    action: str = ""
    """The path that the form was sent to."""

    @property
    def base(self) -> str:
        return self.frame.base

    def get(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.fields if key == name), default)

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.fields if key == name)

    @property
    def return_to(self) -> str:
        """The page that the form was on: always one of ours, whatever the form says."""
        path = self.get("return_to", "/")
        is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
        return f"{self.base}{path}" if is_ours else f"{self.base}/"


Page = Callable[[PageContext], str | Response]
Form = Callable[[FormContext], Response]


@dataclass(slots=True)
class Dashboard:
    """Adds the pages to an application."""

    host: PageHost
    board: NoticeBoard = field(default_factory=NoticeBoard)

    def add_to(self, app: FastAPI) -> None:
        from herdbeat.dashboard.routes import FORMS, PAGES  # noqa: PLC0415 -- pages import the types of this module

        for path, page in PAGES.items():
            app.add_api_route(path, self._show(page), methods=["GET"], include_in_schema=False, response_model=None)
        for path, form in FORMS.items():
            app.add_api_route(path, self._submit(form), methods=["POST"], include_in_schema=False, response_model=None)
        routes: tuple[tuple[str, str, Callable[..., object]], ...] = (
            ("GET", "/static/{version}/{name}", serve_static),
            ("GET", "/signin", self._show_sign_in),
            ("POST", "/signin", self._sign_in),
        )
        for method, path, route in routes:
            app.add_api_route(path, route, methods=[method], include_in_schema=False, response_model=None)
        for kind in (HTTPException, Exception):
            app.add_exception_handler(kind, self._show_to_browsers(app.exception_handlers[kind]))

    def _show_to_browsers(self, answer: Callable[..., Any]) -> Callable[[Request, Exception], Awaitable[Response]]:
        """Give a person a page with a way back, where a program gets the answer that the server has for it."""

        async def show(request: Request, error: Exception) -> Response:
            problem: Response = await answer(request, error)
            if not wants_page(request) or problem.media_type == "text/html":
                return problem
            status = problem.status_code
            is_known = status in (404, 405)
            message = "There is no such page." if is_known else f"The server could not do this (status {status})."
            hint = "The address may be old or mistyped." if is_known else "Its log says more. Try it again."
            page = self._render_bare(request, "error.html", error=HerdbeatError(message, hint=hint), status=status)
            return HTMLResponse(page, status_code=status)

        return show

    def _show(self, page: Page) -> Callable[[Request], Response]:
        def show(request: Request) -> Response:
            try:
                visitor = self._identify(request)
            except HerdbeatError as error:
                return self._refuse(request, error)
            try:
                with self._open(request, visitor) as context:
                    answer = page(context)
                    return HTMLResponse(answer) if isinstance(answer, str) else answer
            except HerdbeatError as error:
                return self._show_error(request, visitor, error)

        return show

    def _submit(self, form: Form) -> Callable[[Request], Awaitable[Response]]:
        async def submit(request: Request) -> Response:
            fields = await read_form(request)
            return await run_in_threadpool(self._handle_form, request, form, fields)

        return submit

    def _handle_form(self, request: Request, form: Form, fields: tuple[tuple[str, str], ...]) -> Response:
        token = next((value for name, value in fields if name == "csrf_token"), "")
        try:
            visitor = self._identify(request, token)
        except HerdbeatError as error:
            return self._refuse(request, error)
        frame = replace(self._build_frame(request, visitor, None), notice=None)
        context = FormContext(host=self.host, board=self.board, visitor=visitor, frame=frame, fields=fields)
        path = request.url.path.removeprefix(frame.base)
        context = replace(context, action=path, frame=replace(frame, path=context.return_to.removeprefix(frame.base)))
        try:
            return form(context)
        except HerdbeatError as error:
            notice = PageNotice(text=f"{error.message} {error.hint}".strip(), actor=visitor.actor.name, is_refusal=True)
            return redirect_with_notice(context, notice)

    def _identify(self, request: Request, form_token: str = "") -> Visitor:
        actor, csrf_token = self.host.authenticate(request, form_token)
        return Visitor(actor=actor, csrf_token=csrf_token)

    @contextmanager
    def _open(self, request: Request, visitor: Visitor) -> Iterator[PageContext]:
        with self.host.open() as handle:
            frame = self._build_frame(request, visitor, handle)
            yield PageContext(
                host=self.host,
                board=self.board,
                handle=handle,
                frame=frame,
                path={key: str(value) for key, value in request.path_params.items()},
                query=dict(request.query_params),
            )

    def _build_frame(self, request: Request, visitor: Visitor, handle: FleetHandle | None) -> PageFrame:
        preferences = Preferences.read(request.cookies)
        base = find_base(request)
        query = f"?{request.url.query}" if request.url.query else ""
        frame = PageFrame(
            base=base,
            path=f"{request.url.path.removeprefix(base)}{query}",
            fleet=self.host.fleet_name,
            visitor=visitor,
            preferences=preferences,
            now=handle.now if handle is not None else self.host.now,
            zone=preferences.select_zone(self.host.zone),
            notice=self._find_notice(request, visitor),
            origin=f"{request.url.scheme}://{request.url.netloc}",
        )
        if handle is None or handle.holder_pid is not None:
            return frame
        reader = handle.require_reader()
        node = reader.last_node()
        stopped = None if node is None else node.stopped_at or node.seen_at
        overdue = len(reader.overdue_schedules(frame.now, MAX_COUNTED_OVERDUE))
        return replace(frame, is_running=False, down_since=stopped, overdue=overdue)

    def _find_notice(self, request: Request, visitor: Visitor) -> PageNotice | None:
        key = request.cookies.get(NOTICE_COOKIE, "")
        notice = self.board.find(key, visitor.actor.name) if key else None
        return None if notice is None else replace(notice, key=key)

    def _refuse(self, request: Request, error: HerdbeatError) -> Response:
        """Return the login page for a request without credentials, and an error page for every other error."""
        status = getattr(error, "status", error.http_status)
        if status == 401 and request.method == "GET":
            query = f"?{request.url.query}" if request.url.query else ""
            address = quote(f"{request.url.path.removeprefix(find_base(request))}{query}")
            return RedirectResponse(f"{find_base(request)}/signin?return_to={address}", status_code=303)
        page = self._render_bare(request, "error.html", error=error, status=status)
        return HTMLResponse(page, status_code=status, headers={"Retry-After": "5"} if status == 503 else None)

    def _show_error(self, request: Request, visitor: Visitor, error: HerdbeatError) -> Response:
        frame = self._build_frame(request, visitor, None)
        status = getattr(error, "status", error.http_status)
        return HTMLResponse(render("error.html", frame, error=error, status=status), status_code=status)

    def _show_sign_in(self, request: Request) -> Response:
        return HTMLResponse(self._render_bare(request, "signin.html", error=None))

    async def _sign_in(self, request: Request) -> Response:
        fields = dict(await read_form(request))
        return await run_in_threadpool(self._check_sign_in, request, fields)

    def _check_sign_in(self, request: Request, fields: Mapping[str, str]) -> Response:
        path = request.query_params.get("return_to", "/")
        is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
        answer = RedirectResponse(f"{find_base(request)}{path if is_ours else '/'}", status_code=303)
        try:
            self.host.log_in(request, fields.get("token", "").strip(), answer)
        except HerdbeatError as error:
            status = getattr(error, "status", error.http_status)
            return HTMLResponse(self._render_bare(request, "signin.html", error=error), status_code=status)
        return answer

    def _render_bare(self, request: Request, template: str, **values: object) -> str:
        """Render a page for an unknown visitor: it says nothing about the fleet, not even its name."""
        preferences = Preferences.read(request.cookies)
        frame = PageFrame(
            base=find_base(request),
            path="/",
            fleet="",
            visitor=Visitor(actor=NOBODY, csrf_token=""),
            preferences=preferences,
            now=self.host.now,
            zone=preferences.select_zone(self.host.zone),
        )
        return render(template, frame, **values)


def serve_static(version: str, name: str) -> Response:
    """A file of an older version is answered with the current one, and not kept."""
    file = load_static_files().get(name)
    if file is None:
        raise NotFound(f'There is no file "{name[:40]}".', hint="Reload the page.")
    headers = STATIC_HEADERS if version == static_version() else {}
    return Response(file.content, media_type=file.media_type, headers=headers)


def wants_page(request: Request) -> bool:
    """Whether a person looks at the answer. What is under these paths is for programs, also in a browser."""
    path = request.url.path.removeprefix(find_base(request))
    is_for_programs = path.startswith(("/api/", "/hooks/", "/mcp", "/metrics", "/static/"))
    return not is_for_programs and "text/html" in request.headers.get("accept", "")


def find_base(request: Request) -> str:
    """Return the path under which the application is mounted, by a proxy or in another application."""
    return str(request.scope.get("root_path", "")).rstrip("/")


async def read_form(request: Request) -> tuple[tuple[str, str], ...]:
    body = (await request.body()).decode("utf-8", "replace")
    return tuple(parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))


def redirect_with_notice(context: FormContext, notice: PageNotice) -> Response:
    """Go back to the page of the form, and show there what happened."""
    answer = RedirectResponse(context.return_to, status_code=303)
    key = context.board.put(notice)
    answer.set_cookie(NOTICE_COOKIE, key, max_age=60, path=context.base or "/", httponly=True, samesite="strict")
    return answer
