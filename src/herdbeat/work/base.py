"""The contract of work sources, which is all that the scheduler knows of them: four verbs over typed values.

Everything that an item says was written by somebody else. It passes through as data: nothing here reads a title as a
template, an argument, a path or a marker.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, TypeVar

from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.errors import WorkSourceError, truncate_for_message
from herdbeat.redaction import MASK, redact

MAX_ITEM_ID_LENGTH = 200
MAX_LISTED_ITEMS = 1_000
MAX_TITLE_LENGTH = 1_000
MAX_BODY_LENGTH = 200_000
"""Longer texts are cut off: a prompt shows less than this anyway."""

MAX_LABELS = 100
MAX_METADATA_KEYS = 50
MAX_METADATA_LENGTH = 1_000

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
"""Waits for so many seconds, like `asyncio.sleep`; tests replace it."""


async def call_source(call: Callable[[], Awaitable[T]]) -> tuple[T | None, Exception | None]:
    """Return what a call of a work source returns, or what it raises. The caller logs the error."""
    try:
        return await call(), None
    except Exception as error:  # noqa: BLE001 - it may be the user's code: a defect in one source must not end the node
        return None, error


class ClaimStatus(StrEnum):
    """The outcome of a claim."""

    CLAIMED = "claimed"
    LOST = "lost"  # somebody else has it; take the next item
    GONE = "gone"  # deleted, closed or moved away
    BLOCKED = "blocked"  # offered by somebody who may not, or edited after it was offered


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClaimResult:
    """The answer to a claim. A claimed item is as it was read after the claim; only that text may reach a prompt.

    `offered_at` is when a person last offered the item: attempts count from then. None if the source does not know.
    `reason` says in words why an item is blocked or gone.
    """

    status: ClaimStatus
    item: WorkItem | None = None
    offered_at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClaim:
    """A claim as the store has it. Its row was written at `claimed_at`, before the source was asked.

    It is confirmed once the source has answered `claimed`. A node that died before leaves an unconfirmed one: nobody
    knows whether the item is ours. Of the item, only the id is certain to be there.
    """

    item: WorkItem
    run_marker: str
    claimed_at: datetime
    is_confirmed: bool = True


class ReleaseStatus(StrEnum):
    """The outcome of a release."""

    RELEASED = "released"
    NOT_OURS = "not_ours"  # reported, offered again or claimed by another meanwhile: nothing was changed
    TOO_EARLY = "too_early"  # an unconfirmed claim that may still be another's: ask again later
    GONE = "gone"


class WorkSource(Protocol):
    """A place with items of work.

    Every verb raises WorkSourceFailed. A `claim` that raises has an unknown end: the store keeps its row, and a later
    `release` with `is_confirmed=False` finds out. `claim`, `report` and `release` may be repeated with the same run
    marker and then do only what is left to do, so a node may die anywhere in them.
    """

    @property
    def key(self) -> str:
        """The name of the source in the store: sources with one key have the same items. It holds no secret."""
        ...

    @property
    def claims_remotely(self) -> bool:
        """False if the source marks nothing: what has a row in the store must then not be taken again."""
        ...

    @property
    def is_local(self) -> bool:
        """True if only the machine of this node reaches the source: its folder, or its programs."""
        ...

    async def list(self, limit: int = MAX_LISTED_ITEMS) -> tuple[WorkItem, ...]:
        """Return the items that are offered now, the next one first. Titles and bodies may change until the claim."""
        ...

    async def find_problems(self) -> tuple[str, ...]:
        """Return what a person should put right before the first item: missing labels or permissions."""
        ...

    async def claim(self, item: WorkItem, run_marker: str) -> WorkClaimResult: ...

    async def report(self, claim: WorkClaim, report: Report) -> None:
        """Report the end of the run. A failed item with attempts left is offered again."""
        ...

    async def release(self, claim: WorkClaim) -> ReleaseStatus:
        """Offer an item again without a report: its run never began, or nobody knows how it ended."""
        ...

    async def close(self) -> None: ...


class FailureCause(StrEnum):
    """Why a work source failed."""

    CONFIG = "config"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    INVALID_ANSWER = "invalid_answer"


_PERMANENT_CAUSES = frozenset(
    {FailureCause.CONFIG, FailureCause.AUTHENTICATION, FailureCause.PERMISSION, FailureCause.NOT_FOUND}
)


class WorkSourceFailed(WorkSourceError):
    """A work source did not do what it was asked to. `retry_after` is the least time to wait, if it is known."""

    def __init__(
        self, message: str, *, cause: FailureCause, retry_after: timedelta | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, permanent=cause in _PERMANENT_CAUSES, hint=hint)
        self.cause = cause
        self.retry_after = retry_after


_RUN_MARKER_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNSTORABLE_PATTERN = re.compile("[\x00\ud800-\udfff]")
_PRIORITIES = (
    ("critical", frozenset({"critical", "urgent", "p0"})),
    ("high", frozenset({"high", "important", "p1"})),
    ("medium", frozenset({"medium", "normal", "p2"})),
    ("low", frozenset({"low", "p3", "p4"})),
)
_PRIORITY_PREFIXES = frozenset({"priority", "prio", "severity"})
DEFAULT_PRIORITY = "medium"


def check_run_marker(run_marker: str) -> str:
    """Return the marker. It becomes part of comments and file names, so it may be letters, digits, `.`, `_`, `-`."""
    if not _RUN_MARKER_PATTERN.fullmatch(run_marker):
        raise ValueError(f"not a run marker: {truncate_for_message(run_marker)!r}")
    return run_marker


def is_valid_id(text: str) -> bool:
    """True for one printable line of at most 200 characters."""
    return 0 < len(text) <= MAX_ITEM_ID_LENGTH and text.isprintable() and text == text.strip()


def build_item(
    item_id: str,
    *,
    title: str,
    body: str = "",
    url: str = "",
    labels: Iterable[str] = (),
    assignee: str = "",
    priority: str = "",
    metadata: Mapping[str, str] | None = None,
) -> WorkItem:
    """Return an item whose texts are cut to their limits and hold nothing that a ledger cannot store.

    Raises WorkSourceFailed for an id that is empty, too long or not one printable line.
    """
    if not is_valid_id(item_id):
        message = f'The id "{truncate_for_message(item_id)}" is not one line of 1 to {MAX_ITEM_ID_LENGTH} characters.'
        raise WorkSourceFailed(message, cause=FailureCause.INVALID_ANSWER)
    pairs = list((metadata or {}).items())[:MAX_METADATA_KEYS]
    return WorkItem(
        id=item_id,
        title=_clean(title, MAX_TITLE_LENGTH),
        body=_clean(body, MAX_BODY_LENGTH),
        url=_clean(url, MAX_TITLE_LENGTH),
        labels=tuple(_clean(label, MAX_ITEM_ID_LENGTH) for label in list(labels)[:MAX_LABELS]),
        assignee=_clean(assignee, MAX_ITEM_ID_LENGTH),
        priority=_clean(priority, MAX_ITEM_ID_LENGTH),
        metadata={_clean(key, MAX_ITEM_ID_LENGTH): _clean(value, MAX_METADATA_LENGTH) for key, value in pairs},
    )


def _clean(text: str, max_length: int) -> str:
    return _UNSTORABLE_PATTERN.sub("\N{REPLACEMENT CHARACTER}", text[:max_length])


def find_priority(labels: Iterable[str]) -> str:
    """Return the highest priority that a label names; medium if none does.

    The whole label must name it: "high", "P1", "priority: high", "high priority". In "slow", "p10" or "high-contrast"
    there is none.
    """
    named = {word for label in labels if (word := _priority_word(label)) is not None}
    return next((name for name, words in _PRIORITIES if words & named), DEFAULT_PRIORITY)


def priority_rank(priority: str) -> int:
    """Return the place of a priority in the order of work: critical is 0."""
    names = [name for name, _ in _PRIORITIES]
    return names.index(priority) if priority in names else names.index(DEFAULT_PRIORITY)


def _priority_word(label: str) -> str | None:
    words = re.findall(r"[a-z0-9]+", label.casefold())
    rest = [word for word in words if word not in _PRIORITY_PREFIXES]
    return rest[0] if len(rest) == 1 else None


_TOKEN_SHAPES_PATTERN = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{10,}|github_pat_\w{10,}|lin_(?:api|oauth)_\w{6,}|ey[\w-]{8,}\.ey[\w-]{8,}\.[\w-]+)"
)


def redact_tokens(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without secrets: the given ones, the registered ones, and what has the shape of a token."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    return _TOKEN_SHAPES_PATTERN.sub(MASK, redact(text))
