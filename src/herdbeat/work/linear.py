"""Issues of Linear as items of work, by its GraphQL API.

Linear lets everybody remove a label that is gone already, so labels alone cannot decide who has an issue. A claim is a
comment first: of those who comment while the ready label is on, the first one wins, and swaps both labels in one
change. A claim that is not followed by its labels within ten minutes is dead and no longer in the way; so a node that
dies between any two steps blocks nothing, and an issue that is in progress always names its owner. Comments are
recognised by their first line, which is visible: Linear's editor drops what Markdown hides. There is no check of
authors: only members of the workspace may set labels.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from herdbeat.clock import Clock
from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.errors import TimeParseError, truncate_for_message
from herdbeat.redaction import register_secrets
from herdbeat.timestamps import parse_timestamp
from herdbeat.work.base import (
    DEFAULT_PRIORITY,
    MAX_LISTED_ITEMS,
    ClaimStatus,
    FailureCause,
    ReleaseStatus,
    Sleep,
    WorkClaim,
    WorkClaimResult,
    WorkSourceFailed,
    build_item,
    check_run_marker,
    priority_rank,
    redact_tokens,
)
from herdbeat.work.http import HttpAnswer, HttpTransport, as_dict, as_list, as_text

log = logging.getLogger(__name__)

LINEAR_URL = "https://api.linear.app/graphql"
MAX_TRIES = 4
FIRST_BACKOFF_S = 1.0
PAGE_SIZE = 50
MAX_PAGES = 20
CLAIM_TIME = timedelta(minutes=10)
"""A claim whose labels are not swapped after this time is dead."""

MAX_COMMENT_LENGTH = 60_000
DEFAULT_LIMIT_WAIT = timedelta(seconds=60)
_PRIORITIES = {1: "critical", 2: "high", 3: "medium", 4: "low"}
_MARKER_PATTERN = re.compile(r"herdbeat (claim|report) `([A-Za-z0-9._-]{1,100})`")
_IDENTIFIER_PATTERN = re.compile(r"[A-Za-z0-9]{1,20}-[1-9][0-9]{0,9}")
_ISSUE_FIELDS = """
  id identifier title description url priority createdAt
  state { name type } team { id key } project { name } assignee { displayName }
  labels(first: 50) { nodes { id name } }
"""
_LIST_QUERY = f"""
query($filter: IssueFilter!, $first: Int!, $after: String) {{
  issues(filter: $filter, first: $first, after: $after) {{
    nodes {{ {_ISSUE_FIELDS} }} pageInfo {{ hasNextPage endCursor }}
  }}
}}"""
_ISSUE_QUERY = f"""
query($id: String!, $first: Int!, $after: String) {{
  issue(id: $id) {{
    {_ISSUE_FIELDS}
    comments(first: $first, after: $after) {{
      nodes {{ id body createdAt user {{ id }} }} pageInfo {{ hasNextPage endCursor }}
    }}
  }}
}}"""
_LABELS_QUERY = """
query($name: String!) { issueLabels(filter: { name: { eqIgnoreCase: $name } }) { nodes { id name team { id } } } }"""
_STATES_QUERY = """
query($team: String!) { team(id: $team) { states { nodes { id name type position } } } }"""
_UPDATE_MUTATION = """
mutation($id: String!, $input: IssueUpdateInput!) { issueUpdate(id: $id, input: $input) { success } }"""
_COMMENT_MUTATION = """
mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success } }"""
_DELETE_COMMENT_MUTATION = """
mutation($id: String!) { commentDelete(id: $id) { success } }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearSettings:
    """A `work_source:` of type linear, checked. `done_state` is the name of a state; empty: the first that is done."""

    api_key: str = field(repr=False)
    ready: str = "ready"
    in_progress: str = "agent-working"
    team_key: str = ""
    project: str = ""
    states: tuple[str, ...] = ()
    filter_labels: tuple[str, ...] = ()
    exclude_labels: tuple[str, ...] = ("blocked", "wip")
    done_state: str = ""
    offers_failed_again: bool = True

    def __post_init__(self) -> None:
        if not self.api_key.strip() or not self.api_key.isascii() or not self.api_key.isprintable():
            hint = "Set the variable that auth.token_env names to an API key of Linear (lin_api_…)."
            raise WorkSourceFailed("There is no usable Linear key.", cause=FailureCause.AUTHENTICATION, hint=hint)
        if self.ready.casefold() == self.in_progress.casefold():
            text = "The two labels of the Linear work source are the same."
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Name two different labels.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearComment:
    """A comment; `marker` is ("claim" or "report", run marker) if it is one of ours or of another herdbeat."""

    id: str
    author: str
    at: datetime
    marker: tuple[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearIssue:
    """An issue. `labels` are names, case-folded, with their ids."""

    id: str
    item: WorkItem
    labels: Mapping[str, str]
    is_open: bool
    team_id: str
    created_at: str
    comments: tuple[LinearComment, ...] = ()

    def holder(self) -> LinearComment | None:
        """Return the claim that has the issue: the first one, unless it is dead and another came later."""
        holder: LinearComment | None = None
        for claim in self.open_claims():
            if holder is None or claim.at - holder.at > CLAIM_TIME:
                holder = claim
        return holder

    def open_claims(self) -> list[LinearComment]:
        """Return the claims without a report, the first one first."""
        marked = [comment for comment in self.comments if comment.marker is not None]
        reported = {comment.marker[1] for comment in marked if comment.marker and comment.marker[0] == "report"}
        claims = (comment for comment in marked if comment.marker and comment.marker[0] == "claim")
        found = [claim for claim in claims if claim.marker and claim.marker[1] not in reported]
        return sorted(found, key=lambda claim: (claim.at, claim.id))

    def find(self, kind: str, run_marker: str) -> LinearComment | None:
        return next((comment for comment in self.comments if comment.marker == (kind, run_marker)), None)


class LinearSource:
    """Implements WorkSource. An item's id is the identifier that people use: ENG-123."""

    def __init__(
        self,
        settings: LinearSettings,
        transport: HttpTransport,
        clock: Clock,
        sleep: Sleep,
        *,
        url: str = LINEAR_URL,
    ) -> None:
        register_secrets([settings.api_key])
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._sleep = sleep
        self._url = url
        self._lock = asyncio.Lock()
        self._held_until: datetime | None = None
        self._ready, self._in_progress = settings.ready.casefold(), settings.in_progress.casefold()

    @property
    def key(self) -> str:
        return "linear"

    @property
    def claims_remotely(self) -> bool:
        return True

    @property
    def is_local(self) -> bool:
        return False

    async def close(self) -> None:
        await self._transport.close()

    # The four verbs.

    async def list(self, limit: int = MAX_LISTED_ITEMS) -> tuple[WorkItem, ...]:
        """Return what is offered, by priority, then by age."""
        found: dict[str, LinearIssue] = {}
        after: str | None = None
        for _ in range(MAX_PAGES):
            variables = {"filter": self._filter(), "first": PAGE_SIZE, "after": after}
            page = as_dict(as_dict(await self._query(_LIST_QUERY, variables)).get("issues"))
            if not isinstance(page.get("nodes"), list):
                raise WorkSourceFailed("Linear's answer is no list of issues.", cause=FailureCause.INVALID_ANSWER)
            for node in as_list(page.get("nodes")):
                issue = parse_issue(node)
                if issue is not None and self._is_offered(issue):
                    found[issue.id] = issue
            after = _next_cursor(page)
            if after is None:
                break
        ranked = sorted(found.values(), key=lambda issue: (priority_rank(issue.item.priority), issue.created_at))
        return tuple(issue.item for issue in ranked[: min(limit, MAX_LISTED_ITEMS)])

    async def find_problems(self) -> tuple[str, ...]:
        """Listing finds all there is to find."""
        return ()

    async def claim(self, item: WorkItem, run_marker: str) -> WorkClaimResult:
        check_run_marker(run_marker)
        issue = await self._read(item.id)
        if issue is None or not issue.is_open:
            return WorkClaimResult(status=ClaimStatus.GONE, reason=f"{item.id} is deleted or done.")
        if self._is_ours(issue, run_marker):
            return WorkClaimResult(status=ClaimStatus.CLAIMED, item=issue.item)
        if not self._is_offered(issue) or self._is_being_claimed(issue, run_marker):
            return WorkClaimResult(status=ClaimStatus.LOST)
        if issue.find("claim", run_marker) is None:
            await self._comment_once(issue, "claim", run_marker, "herdbeat works on this.")
        return await self._finish_claim(item.id, run_marker)

    async def _finish_claim(self, identifier: str, run_marker: str) -> WorkClaimResult:
        """Our comment is there: swap the labels if it is the first, else delete it."""
        issue = await self._read(identifier)
        if issue is None:
            return WorkClaimResult(status=ClaimStatus.GONE, reason=f"{identifier} is deleted.")
        holder = issue.holder()
        is_first = holder is not None and holder.marker == ("claim", run_marker)
        if not is_first or not self._is_offered(issue):
            await self._undo_claim(issue, run_marker)
            return WorkClaimResult(status=ClaimStatus.LOST)
        await self._swap(issue, remove=self._ready, add=self._in_progress)
        taken = await self._read(identifier)
        if taken is None or not self._is_ours(taken, run_marker):
            return WorkClaimResult(status=ClaimStatus.LOST)
        return WorkClaimResult(status=ClaimStatus.CLAIMED, item=taken.item)

    async def report(self, claim: WorkClaim, report: Report) -> None:
        marker = check_run_marker(claim.run_marker)
        issue = await self._read(claim.item.id)
        if issue is None:
            log.warning("work not reported item=%s it is deleted", claim.item.id)
            return
        # The labels first, in one change: once the report is there, the claim is no longer open.
        if self._is_ours(issue, marker):
            await self._settle(issue, report)
        if issue.find("report", marker) is None:
            await self._comment_once(issue, "report", marker, self._report_text(report))

    async def _settle(self, issue: LinearIssue, report: Report) -> None:
        is_waiting = issue.is_open and self._ready not in issue.labels  # a person may have offered it again meanwhile
        if report.offers_again and self._settings.offers_failed_again and is_waiting:
            await self._swap(issue, remove=self._in_progress, add=self._ready)
            return
        done = {"stateId": await self._find_done_state(issue)} if report.succeeded and is_waiting else {}
        await self._update(issue, {"removedLabelIds": [issue.labels[self._in_progress]], **done})

    async def release(self, claim: WorkClaim) -> ReleaseStatus:
        """Offer the issue again. A claim without labels, confirmed or not, is only a comment, which is deleted."""
        marker = check_run_marker(claim.run_marker)
        issue = await self._read(claim.item.id)
        if issue is None:
            return ReleaseStatus.GONE
        is_ours = self._is_ours(issue, marker)
        if is_ours and issue.is_open and self._ready not in issue.labels:
            await self._swap(issue, remove=self._in_progress, add=self._ready)
        elif is_ours:
            await self._update(issue, {"removedLabelIds": [issue.labels[self._in_progress]]})
        if issue.find("report", marker) is None:
            await self._undo_claim(issue, marker)
        return ReleaseStatus.RELEASED if is_ours else ReleaseStatus.NOT_OURS

    # Decisions.

    def _filter(self) -> dict[str, object]:
        settings = self._settings
        wanted: list[dict[str, object]] = [
            {"labels": {"some": {"name": {"eqIgnoreCase": name}}}} for name in (settings.ready, *settings.filter_labels)
        ]
        if settings.team_key:
            wanted.append({"team": {"key": {"eq": settings.team_key}}})
        if settings.project:
            wanted.append({"project": {"name": {"eq": settings.project}}})
        if settings.states:
            wanted.append({"state": {"name": {"in": list(settings.states)}}})
        return {"and": [*wanted, {"state": {"type": {"nin": ["completed", "canceled"]}}}]}

    def _is_offered(self, issue: LinearIssue) -> bool:
        excluded = {name.casefold() for name in self._settings.exclude_labels}
        has_ready = self._ready in issue.labels and self._in_progress not in issue.labels
        return issue.is_open and has_ready and not excluded & set(issue.labels)

    def _is_being_claimed(self, issue: LinearIssue, run_marker: str) -> bool:
        """True if somebody else's claim is so young that its labels may still follow."""
        others = [claim for claim in issue.open_claims() if claim.marker != ("claim", run_marker)]
        return any(self._clock.now() - claim.at < CLAIM_TIME for claim in others)

    def _is_ours(self, issue: LinearIssue, run_marker: str) -> bool:
        holder = issue.holder()
        return self._in_progress in issue.labels and holder is not None and holder.marker == ("claim", run_marker)

    def _report_text(self, report: Report) -> str:
        if report.succeeded:
            head = "The run succeeded."
        else:
            head = f"The run failed (attempt {report.attempt} of {report.max_attempts})."
        return "\n\n".join(part for part in (head, report.summary.strip(), report.error.strip()[:4_000]) if part)

    # Single requests.

    async def _read(self, identifier: str) -> LinearIssue | None:
        """Return the issue with all its comments; None if there is none."""
        if not _IDENTIFIER_PATTERN.fullmatch(identifier):
            text = "The id of a Linear item is its identifier, such as ENG-123."
            raise WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)
        comments: list[object] = []
        node: dict[str, object] = {}
        after: str | None = None
        for _ in range(MAX_PAGES):
            variables = {"id": identifier, "first": PAGE_SIZE, "after": after}
            data = await self._query(_ISSUE_QUERY, variables, allows_missing=True)
            node = as_dict(as_dict(data).get("issue"))
            if not node:
                return None
            page = as_dict(node.get("comments"))
            comments += as_list(page.get("nodes"))
            after = _next_cursor(page)
            if after is None:
                break
        return parse_issue(node, comments)

    async def _swap(self, issue: LinearIssue, *, remove: str, add: str) -> None:
        added = await self._find_label(add, issue.team_id)
        await self._update(issue, {"removedLabelIds": [issue.labels[remove]], "addedLabelIds": [added]})

    async def _update(self, issue: LinearIssue, change: Mapping[str, object]) -> None:
        data = await self._query(_UPDATE_MUTATION, {"id": issue.id, "input": dict(change)})
        _require_success(data, "issueUpdate")

    async def _find_label(self, name: str, team_id: str) -> str:
        """Return the id of a label of the issue's team, or of the workspace."""
        data = await self._query(_LABELS_QUERY, {"name": name})
        nodes = [as_dict(node) for node in as_list(as_dict(as_dict(data).get("issueLabels")).get("nodes"))]
        teams = {as_text(as_dict(node.get("team")).get("id")): as_text(node.get("id")) for node in nodes}
        found = teams.get(team_id) or teams.get("")
        if not found:
            text = f'Linear has no label "{truncate_for_message(name)}".'
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Create it for the team or the workspace.")
        return found

    async def _find_done_state(self, issue: LinearIssue) -> str:
        data = await self._query(_STATES_QUERY, {"team": issue.team_id})
        nodes = [
            as_dict(node) for node in as_list(as_dict(as_dict(as_dict(data).get("team")).get("states")).get("nodes"))
        ]
        done = [node for node in nodes if node.get("type") == "completed"]
        done.sort(key=_position)
        name = self._settings.done_state.casefold()
        found = [node for node in nodes if as_text(node.get("name")).casefold() == name] if name else done
        if not found:
            text = "Linear has no state for work that is done."
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Name a state of the team in done_state.")
        return as_text(found[0].get("id"))

    async def _comment_once(self, issue: LinearIssue, kind: str, run_marker: str, text: str) -> None:
        """Write a comment. If the answer is lost, look for it before it is written again."""
        body = f"herdbeat {kind} `{run_marker}`\n\n{redact_tokens(text, [self._settings.api_key])}"[:MAX_COMMENT_LENGTH]
        for attempt in range(1, MAX_TRIES):
            try:
                data = await self._query(_COMMENT_MUTATION, {"input": {"issueId": issue.id, "body": body}}, max_tries=1)
            except WorkSourceFailed as error:
                if error.permanent or error.cause is FailureCause.RATE_LIMITED or attempt == MAX_TRIES - 1:
                    raise
                await self._sleep(FIRST_BACKOFF_S * attempt)
                found = await self._read(issue.item.id)
                if found is None or found.find(kind, run_marker) is not None:
                    return
            else:
                _require_success(data, "commentCreate")
                return

    async def _undo_claim(self, issue: LinearIssue, run_marker: str) -> None:
        comment = issue.find("claim", run_marker)
        if comment is not None:
            await self._query(_DELETE_COMMENT_MUTATION, {"id": comment.id}, allows_missing=True)

    async def _query(
        self, query: str, variables: Mapping[str, object], *, allows_missing: bool = False, max_tries: int = MAX_TRIES
    ) -> dict[str, object] | None:
        """Return the data. None only if `allows_missing` and Linear says that the thing does not exist."""
        body = {"query": query, "variables": dict(variables)}
        async with self._lock:
            for attempt in range(1, max_tries + 1):
                self._require_no_limit()
                try:
                    return self._read_answer(await self._send(body), allows_missing=allows_missing)
                except WorkSourceFailed as error:
                    may_pass = error.cause in (FailureCause.UNAVAILABLE, FailureCause.TIMEOUT)
                    if not may_pass or attempt == max_tries:
                        raise
                await self._sleep(FIRST_BACKOFF_S * 2 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    async def _send(self, body: object) -> HttpAnswer:
        headers = {
            "Authorization": self._settings.api_key.strip(),
            "Content-Type": "application/json",
            "User-Agent": "herdbeat",
        }
        return await self._transport.request("POST", self._url, headers, body)

    def _require_no_limit(self) -> None:
        if self._held_until is not None and self._held_until > (now := self._clock.now()):
            raise _rate_limited(self._held_until - now)

    def _read_answer(self, answer: HttpAnswer, *, allows_missing: bool) -> dict[str, object] | None:
        found = as_dict(answer.data)
        errors = [as_dict(error) for error in as_list(found.get("errors"))]
        codes = {as_text(as_dict(error.get("extensions")).get("code")).upper() for error in errors}
        text = next((as_text(error.get("message")) for error in errors), "")
        said = truncate_for_message(redact_tokens(text, [self._settings.api_key]), 160).rstrip(".")
        if answer.status == 429 or "RATELIMITED" in codes:
            wait = self._limit_wait(answer)
            self._held_until = self._clock.now() + wait
            raise _rate_limited(wait)
        if answer.status == 401 or "AUTHENTICATION_ERROR" in codes:
            hint = "Check the variable that auth.token_env names."
            raise WorkSourceFailed("Linear does not accept the key.", cause=FailureCause.AUTHENTICATION, hint=hint)
        if answer.status == 403 or "FORBIDDEN" in codes:
            raise WorkSourceFailed(f"The key may not do this: {said}.", cause=FailureCause.PERMISSION)
        if answer.status >= 500:
            raise WorkSourceFailed(f"Linear answered {answer.status}.", cause=FailureCause.UNAVAILABLE)
        if allows_missing and errors and "not found" in text.lower():
            return None
        data = found.get("data")
        if answer.status != 200 or errors or not isinstance(data, dict):
            text = f"Linear refused the request with {answer.status}{f': {said}' if said else ''}."
            raise WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)
        return data

    def _limit_wait(self, answer: HttpAnswer) -> timedelta:
        """Return how long a limit lasts. Linear reports its end in milliseconds."""
        retry_after = answer.headers.get("Retry-After", "")
        if retry_after.isdecimal():
            return timedelta(seconds=min(int(retry_after), 86_400))
        for name in ("X-RateLimit-Requests-Reset", "X-RateLimit-Complexity-Reset"):
            reset = answer.headers.get(name, "")
            if reset.isdecimal() and len(reset) < 15:
                wait = datetime.fromtimestamp(int(reset) / 1_000, UTC) - self._clock.now()
                return min(max(wait, timedelta(seconds=1)), timedelta(days=1))
        return DEFAULT_LIMIT_WAIT


def parse_issue(data: object, comments: object = ()) -> LinearIssue | None:
    """Return the issue; None for anything that is not one."""
    node = as_dict(data)
    identifier, issue_id = as_text(node.get("identifier")), as_text(node.get("id"))
    if not _IDENTIFIER_PATTERN.fullmatch(identifier) or not issue_id:
        return None
    labels = [as_dict(label) for label in as_list(as_dict(node.get("labels")).get("nodes"))]
    names = [as_text(label.get("name")) for label in labels]
    state, priority = as_dict(node.get("state")), node.get("priority")
    found = [_parse_comment(as_dict(each)) for each in as_list(comments)]
    item = build_item(
        identifier,
        title=as_text(node.get("title")),
        body=as_text(node.get("description")),
        url=as_text(node.get("url")),
        labels=names,
        assignee=as_text(as_dict(node.get("assignee")).get("displayName")),
        priority=_PRIORITIES.get(int(priority), DEFAULT_PRIORITY) if isinstance(priority, int | float) else "",
        metadata={
            "identifier": identifier,
            "linear_id": issue_id,
            "state": as_text(state.get("name")),
            "team": as_text(as_dict(node.get("team")).get("key")),
            "project": as_text(as_dict(node.get("project")).get("name")),
        },
    )
    return LinearIssue(
        id=issue_id,
        item=item,
        labels={as_text(label.get("name")).casefold(): as_text(label.get("id")) for label in labels},
        is_open=state.get("type") not in ("completed", "canceled"),
        team_id=as_text(as_dict(node.get("team")).get("id")),
        created_at=as_text(node.get("createdAt")),
        comments=tuple(comment for comment in found if comment is not None),
    )


def _parse_comment(node: dict[str, object]) -> LinearComment | None:
    try:
        at = parse_timestamp(as_text(node.get("createdAt")))
    except TimeParseError:
        return None
    found = _MARKER_PATTERN.match(as_text(node.get("body")))
    return LinearComment(
        id=as_text(node.get("id")),
        author=as_text(as_dict(node.get("user")).get("id")),
        at=at,
        marker=(found[1], found[2]) if found else None,
    )


def _require_success(data: dict[str, object] | None, mutation: str) -> None:
    if as_dict(as_dict(data).get(mutation)).get("success") is not True:
        raise WorkSourceFailed(f"Linear did not do {mutation}.", cause=FailureCause.INVALID_ANSWER)


def _rate_limited(wait: timedelta) -> WorkSourceFailed:
    text = f"Linear's rate limit is reached; it lasts {round(wait.total_seconds())} s more."
    return WorkSourceFailed(text, cause=FailureCause.RATE_LIMITED, retry_after=wait)


def _position(state: dict[str, object]) -> float:
    """Return the place of a state among those of its team. Anything but a number counts as the first."""
    place = state.get("position")
    return float(place) if isinstance(place, int | float) else 0.0


def _next_cursor(page: dict[str, object]) -> str | None:
    info = as_dict(page.get("pageInfo"))
    cursor = info.get("endCursor")
    return cursor if info.get("hasNextPage") and isinstance(cursor, str) else None
