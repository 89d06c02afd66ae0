"""Issues and pull requests of a GitHub repository as items of work.

A claim removes the ready label (GitHub answers 404 to all but the first), writes a comment with the run's hidden
marker, adds the in-progress label, and reads the issue back. The comment comes before the second label: so an issue
that is in progress always names its owner, and a node that dies between any two steps leaves nothing ambiguous. A
report is a comment with the run's marker; then the issue is closed, or offered again.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import quote, urlencode

from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.work.base import (
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
    find_priority,
    priority_rank,
)
from herdbeat.work.github_client import PUBLIC_API_URL, GitHubClient, GitHubReply, ListTooLong
from herdbeat.work.github_history import (
    IssueHistory,
    claim_marker,
    parse_marker,
    parse_time,
    parse_timeline,
    report_marker,
)
from herdbeat.work.http import as_dict, as_list, as_text

log = logging.getLogger(__name__)

MAX_COMMENT_LENGTH = 60_000
"""GitHub refuses more than 65,536 characters."""

COMMENT_TRIES = 3
COMMENT_BACKOFF_S = 2.0
PERMISSION_CACHE_TIME = timedelta(minutes=5)
MAX_BLOCKED = 1_000
_WRITERS = frozenset({"admin", "write", "maintain"})
_NUMBER_PATTERN = re.compile(r"[1-9][0-9]{0,17}")
_REPO_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_LAST_EDIT = """
query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    issueOrPullRequest(number: $number) {
      ... on Issue { title body lastEditedAt editor { __typename login } }
      ... on PullRequest { title body lastEditedAt editor { __typename login } }
    }
  }
}
"""


class GitHubItems(StrEnum):
    """What is taken as an item."""

    ISSUES = "issues"
    PULL_REQUESTS = "pull_requests"


class ClaimMode(StrEnum):
    """Where a taken item is marked: by labels on GitHub, or only in our store, as agentd does."""

    LABELS = "labels"
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubSettings:
    """A `work_source:` of type github, checked.

    With `checks_author`, a person with write access must have added the ready label, and nobody else may have edited
    title or body since. `trusted_bots` may add it, too: their accounts end in [bot].
    """

    repo: str
    items: GitHubItems = GitHubItems.ISSUES
    ready: str = "ready"
    in_progress: str = "agent-working"
    filter_labels: tuple[str, ...] = ()
    exclude_labels: tuple[str, ...] = ("blocked", "wip")
    state: str = "open"
    assignee: str = ""
    claim: ClaimMode = ClaimMode.LABELS
    offers_failed_again: bool = True
    checks_author: bool = True
    trusted_bots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _REPO_PATTERN.fullmatch(self.repo) or {".", ".."} & set(self.repo.split("/")):
            text = "The GitHub work source names no repository."
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Write repo: owner/name.")
        names = [self.ready, self.in_progress, *self.filter_labels]
        if (
            any("," in name or not name.strip() for name in names)
            or self.ready.casefold() == self.in_progress.casefold()
        ):
            text = "The labels of the GitHub work source are empty, equal, or have a comma."
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Name two different labels without a comma.")
        is_marked = self.claim is ClaimMode.LABELS
        if (is_marked and self.state != "open") or (self.checks_author and not is_marked):
            text = "Only open items can be claimed by labels, and only labels tell who has offered an item."
            hint = "Write state: open with claim: labels; leave check_author out with claim: store."
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue or a pull request as the REST API shows it."""

    number: int
    title: str
    body: str
    url: str
    labels: tuple[str, ...]
    is_open: bool
    is_pull_request: bool
    author: str
    assignee: str
    created_at: datetime | None
    updated_at: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def has_label(self, name: str) -> bool:
        return name.casefold() in {label.casefold() for label in self.labels}

    def spell(self, name: str) -> str:
        """Return a label as the repository writes it: "Ready" for "ready"."""
        return next((label for label in self.labels if label.casefold() == name.casefold()), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EditedText:
    """Title and body, and who changed the body last: one answer, so they belong together."""

    number: int
    title: str
    body: str
    edited_at: datetime | None
    editor: str
    is_bot: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckedOffer:
    issue: Issue
    offered_at: datetime | None
    block: str = ""


class GitHubSource:
    """Implements WorkSource. One instance per source and node; its verbs may run at the same time."""

    def __init__(self, settings: GitHubSettings, client: GitHubClient, sleep: Sleep) -> None:
        self._settings = settings
        self._client = client
        self._sleep = sleep
        self._path = f"/repos/{settings.repo}"
        self._permissions: dict[str, tuple[bool, datetime]] = {}
        self._blocked: dict[int, str] = {}
        """Issues that may not be taken, with the `updated_at` of which that is true."""

    @property
    def key(self) -> str:
        host = "" if self._client.api_url == PUBLIC_API_URL else f"{self._client.api_url}/"
        return f"github:{host}{self._settings.repo.casefold()}"

    @property
    def claims_remotely(self) -> bool:
        return self._settings.claim is ClaimMode.LABELS

    @property
    def is_local(self) -> bool:
        return False

    async def close(self) -> None:
        await self._client.close()

    # List.

    async def list(self, limit: int = MAX_LISTED_ITEMS) -> tuple[WorkItem, ...]:
        """Return what is offered, by priority label, then by age."""
        reply, entries = await self._client.get_stable(f"{self._path}/issues?{self._list_query()}")
        self._require_list(reply, f"repository {self._settings.repo}")
        issues = [issue for entry in entries if (issue := parse_issue(entry)) is not None]
        offered = [issue for issue in issues if self._is_offered(issue) and not self._is_known_blocked(issue)]
        offered.sort(key=_work_order)
        return tuple(to_item(issue) for issue in offered[: min(limit, MAX_LISTED_ITEMS)])

    def _list_query(self) -> str:
        settings = self._settings
        labels = [settings.ready, *settings.filter_labels] if self.claims_remotely else list(settings.filter_labels)
        query = {
            "state": settings.state,
            "sort": "created",
            "direction": "asc",
            "per_page": str(self._client.page_size),
        }
        if labels:
            query["labels"] = ",".join(labels)
        if settings.assignee:
            query["assignee"] = settings.assignee
        return urlencode(query)

    def _is_offered(self, issue: Issue) -> bool:
        settings = self._settings
        if issue.is_pull_request != (settings.items is GitHubItems.PULL_REQUESTS):
            return False
        if settings.state != "all" and issue.is_open != (settings.state == "open"):
            return False
        if any(issue.has_label(name) for name in settings.exclude_labels):
            return False
        if not all(issue.has_label(name) for name in settings.filter_labels):
            return False
        return not self.claims_remotely or (
            issue.has_label(settings.ready) and not issue.has_label(settings.in_progress)
        )

    def _is_known_blocked(self, issue: Issue) -> bool:
        return self._blocked.get(issue.number) == issue.updated_at

    async def find_problems(self) -> tuple[str, ...]:
        """Return which label does not exist, and whether the token may change issues."""
        if not self.claims_remotely:
            return ()
        repo, problems = self._settings.repo, []
        for name in (self._settings.ready, self._settings.in_progress):
            reply = await self._client.get(f"{self._path}/labels/{quote(name, safe='')}")
            if reply.status == 404:
                problems.append(f'The label "{name}" does not exist in {repo}.')
        reply = await self._client.get(self._path)
        permissions = as_dict(as_dict(reply.data).get("permissions"))
        if permissions and not any(permissions.get(name) for name in ("push", "triage", "maintain", "admin")):
            problems.append(f"The token can read {repo}, and cannot change its issues.")
        return tuple(problems)

    # Claim.

    async def claim(self, item: WorkItem, run_marker: str) -> WorkClaimResult:
        number = parse_number(item.id)
        check_run_marker(run_marker)
        issue = await self._read(number)
        if issue is None:
            return WorkClaimResult(status=ClaimStatus.GONE, reason=f"#{number} is deleted or moved.")
        if not self.claims_remotely:
            return await self._take_unmarked(issue)
        if not self._is_offered(issue):
            return await self._continue_claim(issue, run_marker)
        try:
            checked = await self._check_offer(issue)
        except ListTooLong as error:
            checked = _CheckedOffer(issue=issue, offered_at=None, block=error.message)
        if checked.block:
            self._remember_block(issue)
            return WorkClaimResult(status=ClaimStatus.BLOCKED, reason=checked.block)
        reply = await self._delete_label(issue, self._settings.ready)
        if reply.status in (404, 410):
            if reply.was_repeated:
                text = f"GitHub did not say who removed the ready label of #{number}."
                raise WorkSourceFailed(text, cause=FailureCause.UNAVAILABLE)
            return WorkClaimResult(status=ClaimStatus.LOST)
        self._require(reply, 200, f"to remove a label of #{number}")
        await self._comment_once(number, claim_marker(run_marker), f"herdbeat works on this (run {run_marker}).")
        return await self._finish_claim(number, run_marker)

    async def _take_unmarked(self, issue: Issue) -> WorkClaimResult:
        if not self._is_offered(issue):
            return WorkClaimResult(status=ClaimStatus.GONE, reason=f"#{issue.number} no longer matches.")
        return WorkClaimResult(status=ClaimStatus.CLAIMED, item=await self._complete_item(issue))

    async def _continue_claim(self, issue: Issue, run_marker: str) -> WorkClaimResult:
        """Continue a claim that was begun with this marker; anything else is somebody else's."""
        history = await self._read_history(issue.number)
        if issue.is_open and history.is_held_by(run_marker) and not history.has_report(run_marker):
            return await self._finish_claim(issue.number, run_marker)
        return WorkClaimResult(status=ClaimStatus.LOST if issue.is_open else ClaimStatus.GONE)

    async def _finish_claim(self, number: int, run_marker: str) -> WorkClaimResult:
        """The ready label is off and our comment is there: see whether it is the first, then mark and read back."""
        history = await self._read_history(number)
        if not history.is_held_by(run_marker):
            return WorkClaimResult(status=ClaimStatus.LOST)
        await self._add_label(number, self._settings.in_progress)
        issue = await self._read(number)
        if issue is None:
            return WorkClaimResult(status=ClaimStatus.GONE, reason=f"#{number} is deleted or moved.")
        if not issue.is_open:
            await self._offer_again(issue)
            return WorkClaimResult(status=ClaimStatus.GONE, reason=f"#{number} was closed meanwhile.")
        checked = await self._check_offer(issue)
        if checked.block:
            await self._offer_again(issue)
            return WorkClaimResult(status=ClaimStatus.BLOCKED, reason=checked.block)
        item = await self._complete_item(checked.issue)
        return WorkClaimResult(status=ClaimStatus.CLAIMED, item=item, offered_at=checked.offered_at)

    async def _complete_item(self, issue: Issue) -> WorkItem:
        """Return the item, for a pull request with its branches."""
        if not issue.is_pull_request:
            return to_item(issue)
        reply = await self._client.get(f"{self._path}/pulls/{issue.number}")
        self._require(reply, 200, f"pull request #{issue.number}")
        return to_item(issue, _pull_request_metadata(reply.data))

    # Who may offer an item.

    async def _check_offer(self, issue: Issue) -> _CheckedOffer:
        """Return the issue with its text of this moment, and why it must not be taken, if so.

        Anybody may write an issue, and its author may edit it at any time. What a person with write access has read
        and labelled is trusted; a text that was changed later by somebody without is not.
        """
        checks_author = self._settings.checks_author
        # The text first, then the history: an edit that the text shows cannot be missing in the history.
        text = await self._read_text(issue.number) if checks_author else None
        offer = (history := await self._read_history(issue.number)).personal_offer
        offered_at = offer.at if offer else None
        if text is None:
            return _CheckedOffer(issue=issue, offered_at=offered_at)
        read = replace(issue, title=text.title, body=text.body)
        return _CheckedOffer(issue=read, offered_at=offered_at, block=await self._find_block(text, history))

    async def _find_block(self, issue: _EditedText, history: IssueHistory) -> str:
        offer = history.personal_offer
        if offer is None:
            return f"It is not known who added the ready label to #{issue.number}."
        if not await self._is_trusted(offer.actor, is_bot=offer.is_bot):
            return f"{offer.actor} added the ready label to #{issue.number} and has no write access."
        for rename in history.renames_since(offer.at):
            if not await self._is_trusted(rename.actor, is_bot=rename.is_bot):
                return f"The title of #{issue.number} was edited by {rename.actor} after it was labelled."
        if issue.edited_at is None or issue.edited_at < offer.at:
            return ""
        if issue.editor and await self._is_trusted(issue.editor, is_bot=issue.is_bot):
            return ""
        return f"#{issue.number} was edited by {issue.editor or 'somebody'} after it was labelled."

    async def _read_text(self, number: int) -> _EditedText:
        owner, _, name = self._settings.repo.partition("/")
        variables = {"owner": owner, "name": name, "number": number}
        data = await self._client.graphql(_LAST_EDIT, variables)
        found = as_dict(data.get("repository")).get("issueOrPullRequest")
        if not isinstance(found, dict):
            text = f"GitHub did not say when #{number} was edited."
            raise WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)
        return _EditedText(
            number=number,
            title=as_text(found.get("title")),
            body=as_text(found.get("body")),
            edited_at=parse_time(found.get("lastEditedAt")),
            editor=_login(found.get("editor")),
            is_bot=as_dict(found.get("editor")).get("__typename") == "Bot",
        )

    async def _is_trusted(self, login: str, *, is_bot: bool) -> bool:
        if is_bot:  # REST names it "name[bot]", GraphQL "name"
            name = login.casefold().removesuffix("[bot]")
            return name in {bot.casefold().removesuffix("[bot]") for bot in self._settings.trusted_bots}
        now = self._client.server_now
        known = self._permissions.get(login)
        if known is None or now - known[1] > PERMISSION_CACHE_TIME:
            known = self._permissions[login] = (await self._may_write(login), now)
        return known[0]

    async def _may_write(self, login: str) -> bool:
        if not login:
            return False
        reply = await self._client.get(f"{self._path}/collaborators/{quote(login, safe='')}/permission")
        if reply.status == 404:
            return False
        self._require(reply, 200, f"the permission of {login}")
        data = as_dict(reply.data)
        return bool({as_text(data.get("permission")), as_text(data.get("role_name"))} & _WRITERS)

    def _remember_block(self, issue: Issue) -> None:
        if len(self._blocked) >= MAX_BLOCKED:
            self._blocked.clear()
        self._blocked[issue.number] = issue.updated_at

    # Report and release.

    async def report(self, claim: WorkClaim, report: Report) -> None:
        if not self.claims_remotely:
            return
        number, marker = parse_number(claim.item.id), check_run_marker(claim.run_marker)
        issue = await self._read(number)
        if issue is None:
            log.warning("work not reported item=%s it is deleted or moved", number)
            return
        history = await self._read_history(number)
        if not history.has_report(marker):
            offers_again = report.offers_again and self._settings.offers_failed_again
            first_line = report_marker(marker, offers_again=offers_again)
            await self._comment_once(number, first_line, self._report_text(report, marker))
        if not self._is_ours(claim, issue, history):
            # A person or another claim has moved it on: the comment is all that is left to do.
            await self._unmark_reoffered(claim, issue, history)
            return
        if report.succeeded and issue.is_open and not issue.is_pull_request:
            body = {"state": "closed", "state_reason": "completed"}
            reply = await self._client.write("PATCH", f"{self._path}/issues/{number}", body)
            self._require(reply, 200, f"to close #{number}")
        if report.offers_again and self._settings.offers_failed_again:
            await self._offer_again(issue)
        else:
            await self._unmark(issue)

    async def release(self, claim: WorkClaim) -> ReleaseStatus:
        """Offer the item again if it is certainly ours.

        An unconfirmed claim with its comment is ours. Without, it is given back only if we were the last to remove the
        ready label, after the store's row, and the issue has had neither label for ten minutes: by then no other claim
        can be under way.
        """
        if not self.claims_remotely:
            return ReleaseStatus.RELEASED
        number, marker = parse_number(claim.item.id), check_run_marker(claim.run_marker)
        issue = await self._read(number)
        if issue is None:
            return ReleaseStatus.GONE
        history = await self._read_history(number)
        if history.has_report(marker):
            return ReleaseStatus.NOT_OURS
        if self._is_ours(claim, issue, history):
            await self._offer_again(issue)
            return ReleaseStatus.RELEASED
        if await self._unmark_reoffered(claim, issue, history):
            return ReleaseStatus.RELEASED
        if claim.is_confirmed or not self._may_be_ours(claim, issue, history):
            return ReleaseStatus.NOT_OURS
        if not history.has_settled(self._client.server_now):
            return ReleaseStatus.TOO_EARLY
        # Our own label must be distinguishable from a person's.
        await self._comment_once(number, claim_marker(marker), f"herdbeat gives this back (run {marker} never began).")
        await self._offer_again(issue)
        return ReleaseStatus.RELEASED

    def _is_ours(self, claim: WorkClaim, issue: Issue, history: IssueHistory) -> bool:
        if history.is_held_by(claim.run_marker):
            return True
        # A confirmed claim whose comment a person has deleted.
        is_marked = issue.has_label(self._settings.in_progress) and history.is_unclaimed()
        return claim.is_confirmed and is_marked and history.is_taken_by_us(claim.claimed_at)

    async def _unmark_reoffered(self, claim: WorkClaim, issue: Issue, history: IssueHistory) -> bool:
        """Take our mark off an issue to which a person added the ready label while we had it: nobody else could."""
        is_marked = issue.has_label(self._settings.ready) and issue.has_label(self._settings.in_progress)
        if not is_marked or not history.is_last_claim(claim.run_marker):
            return False
        await self._unmark(issue)
        return True

    def _may_be_ours(self, claim: WorkClaim, issue: Issue, history: IssueHistory) -> bool:
        is_bare = not issue.has_label(self._settings.ready) and not issue.has_label(self._settings.in_progress)
        is_free = is_bare and issue.is_open and history.is_unclaimed()
        return is_free and history.is_taken_by_us(claim.claimed_at)

    async def _offer_again(self, issue: Issue) -> None:
        """Remove the in-progress label, then add the ready one: a death between the two leaves a claim that is ours."""
        await self._unmark(issue)
        if issue.is_open:
            await self._add_label(issue.number, self._settings.ready)

    async def _unmark(self, issue: Issue) -> None:
        reply = await self._delete_label(issue, self._settings.in_progress)
        if reply.status not in (404, 410):  # it is off already
            self._require(reply, 200, f"to remove a label of #{issue.number}")

    def _report_text(self, report: Report, run_marker: str) -> str:
        settings = self._settings
        if report.succeeded:
            head = f"**herdbeat**: run {run_marker} succeeded."
        else:
            head = f"**herdbeat**: run {run_marker} failed (attempt {report.attempt} of {report.max_attempts})."
        parts = [head, report.summary.strip(), _quote_error(report.error)]
        if not report.succeeded and not (report.offers_again and settings.offers_failed_again):
            parts.append(f"It is not tried again. To offer it once more, add the label `{settings.ready}`.")
        return "\n\n".join(part for part in parts if part)

    # Single requests.

    async def _read(self, number: int) -> Issue | None:
        """Return the issue; None if it was deleted or moved to another repository."""
        reply = await self._client.get(f"{self._path}/issues/{number}")
        if reply.status in (301, 404, 410):
            return None
        self._require(reply, 200, f"issue #{number}")
        issue = parse_issue(reply.data)
        if issue is None or issue.number != number:
            raise WorkSourceFailed(f"GitHub's answer is not issue #{number}.", cause=FailureCause.INVALID_ANSWER)
        return issue

    async def _read_history(self, number: int) -> IssueHistory:
        login = await self._client.login()
        path = f"{self._path}/issues/{number}/timeline?per_page={self._client.page_size}"
        reply, entries = await self._client.get_all(path)
        self._require_list(reply, f"timeline of #{number}")
        return IssueHistory(
            entries=parse_timeline(entries),
            login=login,
            ready=self._settings.ready.casefold(),
            in_progress=self._settings.in_progress.casefold(),
        )

    async def _add_label(self, number: int, name: str) -> None:
        reply = await self._client.write("POST", f"{self._path}/issues/{number}/labels", {"labels": [name]})
        self._require(reply, 200, f"to add a label to #{number}")

    async def _delete_label(self, issue: Issue, name: str) -> GitHubReply:
        label = quote(issue.spell(name), safe="")
        return await self._client.write("DELETE", f"{self._path}/issues/{issue.number}/labels/{label}")

    async def _comment_once(self, number: int, marker: str, text: str) -> None:
        """Write a comment. If the answer is lost, look for its marker before it is written again."""
        cut = self._client.redact(text)[:MAX_COMMENT_LENGTH]
        body = {"body": f"{marker}\n{cut}"}
        path = f"{self._path}/issues/{number}/comments"
        for attempt in range(1, COMMENT_TRIES + 1):
            try:
                reply = await self._client.write("POST", path, body, is_idempotent=False)
            except WorkSourceFailed as error:
                if error.permanent or error.cause is FailureCause.RATE_LIMITED or attempt == COMMENT_TRIES:
                    raise
                await self._sleep(COMMENT_BACKOFF_S * attempt)
                if await self._has_comment(number, marker):
                    return
            else:
                self._require(reply, 201, f"a comment on #{number}")
                self._client.learn_login(_login(as_dict(reply.data).get("user")))
                return

    async def _has_comment(self, number: int, marker: str) -> bool:
        history = await self._read_history(number)
        kind, run_marker = parse_marker(marker) or ("", "")
        return history.has_claim(run_marker) if kind == "claim" else history.has_report(run_marker)

    def _require_list(self, reply: GitHubReply, what: str) -> None:
        """A proxy's page with status 200 is not an empty list."""
        self._require(reply, 200, what)
        if not isinstance(reply.data, list):
            text = f"GitHub's answer about the {what} is no list."
            raise WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)

    def _require(self, reply: GitHubReply, status: int, what: str) -> None:
        if reply.status != status:
            raise self._client.failure(reply, what)


def parse_number(item_id: str) -> int:
    if not _NUMBER_PATTERN.fullmatch(item_id):
        raise WorkSourceFailed("The id of a GitHub item is its number.", cause=FailureCause.INVALID_ANSWER)
    return int(item_id)


def parse_issue(data: object) -> Issue | None:
    """Return the issue; None for anything that is not one."""
    if not isinstance(data, dict) or not isinstance(data.get("number"), int):
        return None
    labels = [each.get("name") if isinstance(each, dict) else each for each in as_list(data.get("labels"))]
    assignees = [_login(each) for each in as_list(data.get("assignees"))]
    author = _login(data.get("user"))
    created = data.get("created_at")
    return Issue(
        number=data["number"],
        title=as_text(data.get("title")),
        body=as_text(data.get("body")),
        url=as_text(data.get("html_url")),
        labels=tuple(name for name in labels if isinstance(name, str)),
        is_open=data.get("state") == "open",
        is_pull_request="pull_request" in data,
        author=author,
        assignee=next((login for login in assignees if login), ""),
        created_at=parse_time(created),
        updated_at=as_text(data.get("updated_at")),
        metadata={"author": author, "created_at": as_text(created)},
    )


def to_item(issue: Issue, metadata: Mapping[str, str] | None = None) -> WorkItem:
    return build_item(
        str(issue.number),
        title=issue.title,
        body=issue.body,
        url=issue.url,
        labels=issue.labels,
        assignee=issue.assignee,
        priority=find_priority(issue.labels),
        metadata={**issue.metadata, **(metadata or {})},
    )


def _work_order(issue: Issue) -> tuple[int, float, int]:
    age = issue.created_at.timestamp() if issue.created_at else 0.0
    return priority_rank(find_priority(issue.labels)), age, issue.number


def _pull_request_metadata(data: object) -> dict[str, str]:
    found = as_dict(data)
    head, base = as_dict(found.get("head")), as_dict(found.get("base"))
    return {
        "head_ref": as_text(head.get("ref")),
        "base_ref": as_text(base.get("ref")),
        "is_draft": "true" if found.get("draft") else "false",
    }


def _quote_error(error: str) -> str:
    """Return the error as an indented code block: there is no fence that it could close."""
    lines = error.strip()[:4_000].splitlines()
    return "\n".join(f"    {line}" for line in lines)


def _login(value: object) -> str:
    return as_text(as_dict(value).get("login"))
