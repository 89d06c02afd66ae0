"""A Linear-shaped GraphQL server on loopback: issues, labels, comments, states, cursors and limits.

It knows the few queries that the work source sends by their names, not by their grammar.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from herdbeat.testing import FakeClock
from herdbeat.timestamps import format_timestamp

KEY = "lin_api_secret0000"
LABELS = {"ready": "L-ready", "agent-working": "L-working", "blocked": "L-blocked", "bug": "L-bug"}
STATES = [
    {"id": "S-todo", "name": "Todo", "type": "unstarted", "position": 1},
    {"id": "S-released", "name": "Released", "type": "completed", "position": 9},
    {"id": "S-done", "name": "Done", "type": "completed", "position": 3},
]


@dataclass(slots=True, kw_only=True)
class FakeLinearIssue:
    identifier: str
    labels: list[str]
    title: str = "A title"
    description: str = "A body"
    priority: int = 0
    state: str = "S-todo"
    created_at: datetime
    comments: list[dict[str, Any]] = field(default_factory=list)

    @property
    def state_name(self) -> str:
        return next(str(state["name"]) for state in STATES if state["id"] == self.state)


class FakeLinear:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.issues: dict[str, FakeLinearIssue] = {}
        self.log: list[tuple[str, Any]] = []
        self.faults: list[tuple[str, int, Any, dict[str, str], bool]] = []
        self.interruptions: list[tuple[str, Callable[[], object]]] = []
        self.page_size = 50
        self.url = ""
        self._ids = 0

    def add(self, identifier: str, *labels: str, **options: Any) -> FakeLinearIssue:
        moment = self.clock.advance(timedelta(seconds=1))
        issue = FakeLinearIssue(identifier=identifier, labels=list(labels), created_at=moment, **options)
        self.issues[identifier] = issue
        return issue

    def comment(self, identifier: str, body: str) -> None:
        self._ids += 1
        moment = format_timestamp(self.clock.advance(timedelta(seconds=1)))
        comment = {"id": f"C{self._ids:04}", "body": body, "createdAt": moment, "user": {"id": "U1"}}
        self.issues[identifier].comments.append(comment)

    def fail(
        self, name: str, status: int, body: Any = None, headers: dict[str, str] | None = None, *, executes: bool = False
    ) -> None:
        """The next request for it gets this answer; status 0 drops the connection."""
        self.faults.append((name, status, body, headers or {}, executes))

    def interrupt(self, name: str, act: Callable[[], object]) -> None:
        self.interruptions.append((name, act))

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        names = ("issues(", "issue(", "issueLabels", "team(", "issueUpdate", "commentCreate", "commentDelete")
        name = next(each.rstrip("(") for each in reversed(names) if each in body["query"])
        self.log.append((name, body["variables"]))
        for entry in [each for each in self.interruptions if each[0] == name][:1]:
            self.interruptions.remove(entry)
            entry[1]()
        fault = next((each for each in self.faults if each[0] == name), None)
        if request.headers.get("Authorization") != KEY:
            return _respond(401, {"errors": [_error("Authentication required", "AUTHENTICATION_ERROR")]})
        answer: Any = self._answer(name, body["variables"]) if fault is None or fault[4] else None
        if fault is None:
            return _respond(200, answer)
        self.faults.remove(fault)
        if fault[1] == 0:
            assert request.transport is not None
            request.transport.abort()
        return _respond(fault[1] or 500, fault[2], fault[3])

    def _answer(self, name: str, variables: Any) -> dict[str, Any]:
        match name:
            case "issues":
                return {"data": {"issues": self._list(variables)}}
            case "issueLabels":
                found = LABELS.get(variables["name"].casefold())
                return {"data": {"issueLabels": {"nodes": [{"id": found, "team": None}] if found else []}}}
            case "team":
                return {"data": {"team": {"states": {"nodes": STATES}}}}
            case "commentDelete":
                for each in self.issues.values():
                    each.comments = [comment for comment in each.comments if comment["id"] != variables["id"]]
                return {"data": {"commentDelete": {"success": True}}}
        identifier = variables.get("id") or variables["input"]["issueId"]
        issue = self.issues.get(identifier.removeprefix("uuid-"))
        if issue is None:
            return {"data": None, "errors": [_error("Entity not found: Issue", "INPUT_ERROR")]}
        if name == "issue":
            comments = _page(issue.comments, variables["after"], self.page_size)
            return {"data": {"issue": {**_show(issue), "comments": comments}}}
        if name == "commentCreate":
            self.comment(issue.identifier, variables["input"]["body"])
        else:
            self._update(issue, variables["input"])
        return {"data": {name: {"success": True}}}

    def _update(self, issue: FakeLinearIssue, change: Any) -> None:
        by_id = {label: name for name, label in LABELS.items()}
        removed = {by_id[label] for label in change.get("removedLabelIds", [])}
        added = [by_id[label] for label in change.get("addedLabelIds", [])]
        issue.labels = [name for name in issue.labels if name not in removed]
        issue.labels += [name for name in added if name not in issue.labels]
        issue.state = change.get("stateId", issue.state)

    def _list(self, variables: Any) -> dict[str, Any]:
        wanted = [
            each["labels"]["some"]["name"]["eqIgnoreCase"] for each in variables["filter"]["and"] if "labels" in each
        ]
        done = {state["id"] for state in STATES if state["type"] == "completed"}
        found = [
            _show(issue)
            for issue in self.issues.values()
            if set(wanted) <= set(issue.labels) and issue.state not in done
        ]
        return _page(found, variables["after"], self.page_size)


def _page(nodes: list[Any], after: str | None, size: int) -> dict[str, Any]:
    start = int(after or 0)
    has_next = start + size < len(nodes)
    info = {"hasNextPage": has_next, "endCursor": str(start + size)}
    return {"nodes": nodes[start : start + size], "pageInfo": info}


def _show(issue: FakeLinearIssue) -> dict[str, Any]:
    return {
        "id": f"uuid-{issue.identifier}",
        "identifier": issue.identifier,
        "title": issue.title,
        "description": issue.description,
        "url": f"https://linear.app/acme/issue/{issue.identifier}",
        "priority": issue.priority,
        "createdAt": format_timestamp(issue.created_at),
        "state": next(state for state in STATES if state["id"] == issue.state),
        "team": {"id": "T1", "key": "ENG"},
        "project": None,
        "assignee": None,
        "labels": {"nodes": [{"id": LABELS[name], "name": name} for name in issue.labels]},
    }


def _error(message: str, code: str) -> dict[str, Any]:
    return {"message": message, "extensions": {"code": code}}


def _respond(status: int, data: Any, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=json.dumps(data), headers=headers, content_type="application/json")


@asynccontextmanager
async def serve_linear(clock: FakeClock) -> AsyncIterator[FakeLinear]:
    linear = FakeLinear(clock)
    runner = web.ServerRunner(web.Server(linear.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    linear.url = f"http://{host}:{port}/graphql"
    try:
        yield linear
    finally:
        await runner.cleanup()
