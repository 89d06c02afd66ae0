"""A GitHub-shaped server on loopback: issues, labels, comments, timelines, permissions, pages, ETags and limits.

It logs every request. A test may make the next matching requests fail, drop their connection before or after they
were executed, or run a function between two requests, such as a person who changes a label at the worst moment.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from aiohttp import web

from herdbeat.testing import FakeClock
from herdbeat.timestamps import format_timestamp

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
REPO = "acme/app"
BOT = "herd-bot"
OWNER = "olga"
STRANGER = "mallory"
TOKENS = {"ghp_botbotbotbot0000": BOT, "ghp_otherbot00000000": "other-bot", "ghp_olgaolgaolga0000": OWNER}
TOKEN = "ghp_botbotbotbot0000"
INSTALLATION_TOKEN = "ghs_installation0000"
PERMISSIONS = {OWNER: "admin", BOT: "write", "other-bot": "write", "walter": "write", "rita": "read"}


@dataclass(slots=True, kw_only=True)
class FakeIssue:
    number: int
    title: str = "A title"
    body: str = "A body"
    labels: list[str] = field(default_factory=list)
    state: str = "open"
    author: str = STRANGER
    created_at: datetime = NOW
    updated_at: datetime = NOW
    timeline: list[dict[str, Any]] = field(default_factory=list)
    edited_at: datetime | None = None
    editor: str = ""
    is_pull_request: bool = False
    assignee: str = ""

    @property
    def comments(self) -> list[dict[str, Any]]:
        return [entry for entry in self.timeline if entry["event"] == "commented"]

    def has_label(self, name: str) -> bool:
        return name.casefold() in [label.casefold() for label in self.labels]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """One request, and who sent it. `status` is 0 if its connection was dropped."""

    login: str
    method: str
    path: str
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to the next `count` requests that match. With `executes`, they are executed all the same."""

    method: str
    part: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    executes: bool = False
    count: int = 1


@dataclass(slots=True, kw_only=True)
class Interruption:
    """Runs before the next request that matches is executed."""

    method: str
    part: str
    act: Callable[[], object]


class FakeGitHub:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.issues: dict[int, FakeIssue] = {}
        self.log: list[LoggedRequest] = []
        self.faults: list[Fault] = []
        self.interruptions: list[Interruption] = []
        self.has_etags = True
        self.repo_labels = {"ready", "agent-working"}
        self.can_push = True
        self.base_path = ""
        self.url = ""
        self.jwts: list[str] = []
        self.token_lifetime = timedelta(hours=1)
        self._ids = 1_000

    # What people do.

    def add(self, number: int, *labels: str, by: str = OWNER, **options: Any) -> FakeIssue:
        """Open an issue and let somebody add labels to it."""
        age = timedelta(minutes=number)
        issue = FakeIssue(number=number, created_at=NOW - timedelta(days=30) + age, **options)
        self.issues[number] = issue
        for label in labels:
            self.label(number, label, by)
        return issue

    def label(self, number: int, name: str, by: str = OWNER) -> None:
        issue = self.issues[number]
        if not issue.has_label(name):
            issue.labels.append(name)
            self._happen(issue, "labeled", by, label={"name": name, "color": "ededed"})

    def unlabel(self, number: int, name: str, by: str = OWNER) -> bool:
        issue = self.issues[number]
        if not issue.has_label(name):
            return False
        issue.labels = [label for label in issue.labels if label.casefold() != name.casefold()]
        self._happen(issue, "unlabeled", by, label={"name": name, "color": "ededed"})
        return True

    def comment(self, number: int, body: str, by: str) -> dict[str, Any]:
        association = "MEMBER" if PERMISSIONS.get(by) in ("admin", "write") else "NONE"
        return self._happen(self.issues[number], "commented", by, body=body, author_association=association)

    def edit(self, number: int, by: str, *, title: str = "", body: str = "") -> None:
        issue = self.issues[number]
        if title:
            self._happen(issue, "renamed", by, rename={"from": issue.title, "to": title})
            issue.title = title
        if body:
            issue.body, issue.editor = body, by
            issue.edited_at = issue.updated_at = self._tick()

    def set_state(self, number: int, state: str, by: str) -> None:
        issue = self.issues[number]
        if issue.state != state:
            issue.state = state
            self._happen(issue, "closed" if state == "closed" else "reopened", by)

    def _happen(self, issue: FakeIssue, event: str, actor: str, **fields: Any) -> dict[str, Any]:
        self._ids += 1
        issue.updated_at = self._tick()
        kind = "Bot" if actor.endswith("[bot]") else "User"
        entry = {"id": self._ids, "event": event, "actor": {"login": actor, "type": kind}, **fields}
        entry["created_at"] = format_timestamp(issue.updated_at)
        issue.timeline.append(entry)
        return entry

    def _tick(self) -> datetime:
        """GitHub's times have whole seconds; every change here has a second of its own."""
        return self.clock.advance(timedelta(seconds=1)).replace(microsecond=0)

    # What a test arranges.

    def fail(self, method: str, part: str, status: int = 0, **options: Any) -> None:
        self.faults.append(Fault(method=method, part=part, status=status, **options))

    def interrupt(self, method: str, part: str, act: Callable[[], object]) -> None:
        self.interruptions.append(Interruption(method=method, part=part, act=act))

    def requests(self, method: str, part: str = "") -> list[LoggedRequest]:
        return [entry for entry in self.log if entry.method == method and part in entry.path]

    # The server.

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.removeprefix(self.base_path)
        raw = await request.read()
        body = json.loads(raw) if raw else None
        self._run_interruption(request.method, path)
        fault = self._take_fault(request.method, path)
        status, data, headers = 0, None, dict[str, str]()
        login = self._authenticate(request, path)
        if fault is None or fault.executes:
            status, data, headers = self._route(request, path, login, body)
        if fault is not None:
            status, data, headers = fault.status, fault.body, fault.headers
        sent = dict(request.headers)
        self.log.append(
            LoggedRequest(login=login, method=request.method, path=path, status=status, body=body, headers=sent)
        )
        if status == 0:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=500)
        return self._respond(request, status, data, headers)

    def _respond(self, request: web.BaseRequest, status: int, data: Any, headers: dict[str, str]) -> web.Response:
        text = json.dumps(data) if data is not None else ""
        date = self.clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        every = {"X-RateLimit-Remaining": "4999", "Date": date, **headers}
        if status == 200 and request.method == "GET" and self.has_etags:
            etag = f'W/"{hashlib.sha256(text.encode()).hexdigest()}"'
            every["ETag"] = etag
            if request.headers.get("If-None-Match") == etag:
                self.log[-1] = LoggedRequest(login=self.log[-1].login, method="GET", path=self.log[-1].path, status=304)
                return web.Response(status=304, headers=every)
        return web.Response(status=status, text=text, headers=every, content_type="application/json")

    def _run_interruption(self, method: str, path: str) -> None:
        for interruption in self.interruptions:
            if interruption.method == method and interruption.part in path:
                self.interruptions.remove(interruption)
                interruption.act()
                return

    def _take_fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method and fault.part in path:
                fault.count -= 1
                if not fault.count:
                    self.faults.remove(fault)
                return fault
        return None

    def _authenticate(self, request: web.BaseRequest, path: str) -> str:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if path.startswith("/app"):
            self.jwts.append(token)
            return "app"
        if token == INSTALLATION_TOKEN:
            return "herd-app[bot]"
        return TOKENS.get(token, "")

    def _route(self, request: web.BaseRequest, path: str, login: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        if not login:
            return 401, {"message": "Bad credentials"}, {}
        if not request.headers.get("User-Agent"):
            return 403, {"message": "Request forbidden by administrative rules."}, {}
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        query = {key: values[0] for key, values in parse_qs(urlsplit(path).query).items()}
        match request.method, parts:
            case "POST", ["app", "installations", _, "access_tokens"]:
                expires = format_timestamp(self.clock.now() + self.token_lifetime)
                return 201, {"token": INSTALLATION_TOKEN, "expires_at": expires}, {}
            case "POST", ["graphql"] | ["api", "graphql"]:
                return self._graphql(body, login)
            case method, ["repos", "acme", "app", *rest]:
                return self._route_repo(method, rest, query, login, body)
        return 404, {"message": "Not Found"}, {}

    def _route_repo(
        self, method: str, rest: list[str], query: dict[str, str], login: str, body: Any
    ) -> tuple[int, Any, dict[str, str]]:
        match method, rest:
            case "GET", []:
                return 200, {"full_name": REPO, "permissions": {"pull": True, "push": self.can_push}}, {}
            case "GET", ["labels", name]:
                known = name in self.repo_labels
                return (200, {"name": name}, {}) if known else (404, {"message": "Not Found"}, {})
            case "GET", ["issues"]:
                return self._list_issues(query)
            case "GET", ["collaborators", name, "permission"]:
                permission = PERMISSIONS.get(name, "none")
                return 200, {"permission": permission, "role_name": permission}, {}
            case "GET", ["pulls", number]:
                data = {"head": {"ref": f"fix-{number}"}, "base": {"ref": "main"}, "draft": False}
                return 200, data, {}
            case _, ["issues", number, *more]:
                issue = self.issues.get(int(number))
                if issue is None:
                    return 410, {"message": "This issue was deleted"}, {}
                return self._route_issue(method, issue, more, query, login, body)
        return 404, {"message": "Not Found"}, {}

    def _route_issue(  # noqa: PLR0911  a table of addresses
        self, method: str, issue: FakeIssue, more: list[str], query: dict[str, str], login: str, body: Any
    ) -> tuple[int, Any, dict[str, str]]:
        number = issue.number
        match method, more:
            case "GET", []:
                return 200, self._show(issue), {}
            case "PATCH", []:
                self.set_state(number, body["state"], login)
                return 200, self._show(issue), {}
            case "GET", ["timeline"]:
                return self._page(issue.timeline, query, f"issues/{number}/timeline")
            case "POST", ["labels"]:
                for name in body["labels"]:
                    self.label(number, name, login)
                return 200, [{"name": name} for name in issue.labels], {}
            case "DELETE", ["labels", name]:
                if not self.unlabel(number, name, login):
                    return 404, {"message": "Label does not exist"}, {}
                return 200, [{"name": name} for name in issue.labels], {}
            case "POST", ["comments"]:
                if len(body["body"]) > 65_536:
                    return 422, {"message": "Validation Failed"}, {}
                entry = self.comment(number, body["body"], login)
                return 201, {"id": entry["id"], "body": body["body"], "user": entry["actor"]}, {}
        return 404, {"message": "Not Found"}, {}

    def _list_issues(self, query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        wanted = [name for name in query.get("labels", "").split(",") if name]
        found = [
            issue
            for issue in sorted(self.issues.values(), key=lambda issue: issue.created_at)
            if query.get("state") in ("all", issue.state) and all(issue.has_label(name) for name in wanted)
            if query.get("assignee", issue.assignee) == issue.assignee
        ]
        return self._page([self._show(issue) for issue in found], query, "issues")

    def _page(self, entries: list[Any], query: dict[str, str], path: str) -> tuple[int, Any, dict[str, str]]:
        size = min(int(query.get("per_page", "30")), 100)
        page = int(query.get("page", "1"))
        headers = {}
        if page * size < len(entries):
            rest = "&".join(f"{key}={value}" for key, value in query.items() if key != "page")
            headers["Link"] = f'<{self.url}/repos/{REPO}/{path}?{rest}&page={page + 1}>; rel="next"'
        return 200, entries[(page - 1) * size : page * size], headers

    def _graphql(self, body: Any, login: str) -> tuple[int, Any, dict[str, str]]:
        if "viewer" in body["query"]:
            return 200, {"data": {"viewer": {"login": login}}}, {}
        issue = self.issues.get(body["variables"]["number"])
        if issue is None:
            return 200, {"data": {"repository": {"issueOrPullRequest": None}}}, {}
        edited = format_timestamp(issue.edited_at) if issue.edited_at else None
        kind = "Bot" if issue.editor.endswith("[bot]") else "User"
        editor = {"__typename": kind, "login": issue.editor.removesuffix("[bot]")} if issue.editor else None
        text = {"title": issue.title, "body": issue.body, "lastEditedAt": edited, "editor": editor}
        return 200, {"data": {"repository": {"issueOrPullRequest": text}}}, {}

    def _show(self, issue: FakeIssue) -> dict[str, Any]:
        kind = "pull" if issue.is_pull_request else "issues"
        shown = {
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "state": issue.state,
            "html_url": f"https://github.com/{REPO}/{kind}/{issue.number}",
            "labels": [{"name": name} for name in issue.labels],
            "user": {"login": issue.author, "type": "User"},
            "assignees": [{"login": issue.assignee}] if issue.assignee else [],
            "created_at": format_timestamp(issue.created_at),
            "updated_at": format_timestamp(issue.updated_at),
        }
        return shown | ({"pull_request": {"url": "…"}} if issue.is_pull_request else {})


@asynccontextmanager
async def serve_github(clock: FakeClock, base_path: str = "") -> AsyncIterator[FakeGitHub]:
    github = FakeGitHub(clock)
    runner = web.ServerRunner(web.Server(github.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    github.base_path = base_path
    github.url = f"http://{host}:{port}{base_path}"
    try:
        yield github
    finally:
        await runner.cleanup()
