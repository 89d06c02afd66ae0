"""Requests to the REST and GraphQL APIs of GitHub: tokens, limits, conditional requests, pages.

One client serves one repository. Its requests are serial and its writes are spaced, as GitHub asks of integrations;
while a limit is in force nothing is sent at all, because going on gets an integration banned.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from herdbeat.clock import Clock
from herdbeat.errors import truncate_for_message
from herdbeat.work.base import FailureCause, Sleep, WorkSourceFailed, redact_tokens
from herdbeat.work.github_tokens import TokenProvider
from herdbeat.work.http import HttpAnswer, HttpTransport, as_dict

API_VERSION = "2022-11-28"
PUBLIC_API_URL = "https://api.github.com"
MAX_TRIES = 4
FIRST_BACKOFF = timedelta(seconds=1)
SECONDARY_LIMIT_WAIT = timedelta(seconds=60)
MAX_SECONDARY_LIMIT_WAIT = timedelta(minutes=15)
MAX_WAIT = timedelta(seconds=60)
"""A limit that ends within this time is waited for; a longer one is an error with its `retry_after`."""

WRITE_INTERVAL = timedelta(seconds=1)
MAX_CACHED_PAGES = 32
MAX_PAGE_SIZE = 100
MAX_PAGES = 20
MAX_TIMELINE_PAGES = 30
MAX_LIST_ROUNDS = 3


class ListTooLong(WorkSourceFailed):
    """A list has more pages than are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubReply:
    """An answer below 500 that is no limit. `is_unchanged`: the server said that the cached data is still true.

    `was_repeated`: an earlier request may have been executed although its answer was lost.
    """

    status: int
    data: object
    next_url: str = ""
    is_unchanged: bool = False
    was_repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedPage:
    etag: str
    data: object
    next_url: str


class GitHubClient:
    """Sends requests until they have an answer that means something. Raises WorkSourceFailed for the others."""

    def __init__(
        self,
        transport: HttpTransport,
        tokens: TokenProvider,
        clock: Clock,
        sleep: Sleep,
        *,
        api_url: str = PUBLIC_API_URL,
        write_interval: timedelta = WRITE_INTERVAL,
        max_wait: timedelta = MAX_WAIT,
        page_size: int = MAX_PAGE_SIZE,
    ) -> None:
        self.page_size = page_size
        self._transport = transport
        self._tokens = tokens
        self._clock = clock
        self._sleep = sleep
        self._api_url = api_url.rstrip("/")
        self._write_interval = write_interval
        self._max_wait = max_wait
        self._pages: OrderedDict[str, _CachedPage] = OrderedDict()
        self._lock = asyncio.Lock()
        self._held_until: datetime | None = None
        self._last_write_at: datetime | None = None
        self._secondary_limits = 0
        self._server_ahead = timedelta()
        self._login = ""

    @property
    def api_url(self) -> str:
        return self._api_url

    async def close(self) -> None:
        await self._transport.close()

    @property
    def server_now(self) -> datetime:
        """The time on GitHub's clock, by the last answer: times of events are compared with it."""
        return self._clock.now() + self._server_ahead

    async def get(self, path: str) -> GitHubReply:
        """Return one resource or page. A cached one is asked for by its ETag: unchanged, it counts for no limit."""
        url = self._url(path)
        cached = self._pages.get(url)
        headers = {"If-None-Match": cached.etag} if cached else {}
        answer, _ = await self._send("GET", url, headers=headers)
        if answer.status == 304 and cached:
            self._pages.move_to_end(url)
            return GitHubReply(status=200, data=cached.data, next_url=cached.next_url, is_unchanged=True)
        next_url = self._next_url(answer)
        if answer.status == 200:
            self._cache(url, answer, next_url)
        return GitHubReply(status=answer.status, data=answer.data, next_url=next_url)

    def _cache(self, url: str, answer: HttpAnswer, next_url: str) -> None:
        """Keep a page for its ETag. Not a full one that is the last: the next entry would not change it."""
        is_full = isinstance(answer.data, list) and len(answer.data) >= self.page_size
        etag = answer.headers.get("ETag")
        if etag is None or (is_full and not next_url):
            self._pages.pop(url, None)
            return
        self._pages[url] = _CachedPage(etag=etag, data=answer.data, next_url=next_url)
        if len(self._pages) > MAX_CACHED_PAGES:
            self._pages.popitem(last=False)

    async def get_all(self, path: str) -> tuple[GitHubReply, list[dict[str, object]]]:
        """Return the first reply, and the entries of all pages. Raises ListTooLong: half a history proves nothing."""
        first, entries, _ = await self._get_round(path, MAX_TIMELINE_PAGES + 1)
        if len(entries) > MAX_TIMELINE_PAGES * self.page_size:
            raise ListTooLong(f"It has over {len(entries) - 1:,} entries.", cause=FailureCause.INVALID_ANSWER)
        return first, entries

    async def get_stable(self, path: str) -> tuple[GitHubReply, list[dict[str, object]]]:
        """Return all entries of a list whose pages may shift while they are read, each number once.

        An entry that leaves page 1 moves the first one of page 2 to page 1, where it would never be seen. So several
        pages are asked for again, until a round finds all of them unchanged: that costs nothing.
        """
        found: dict[object, dict[str, object]] = {}
        first = GitHubReply(status=0, data=None)
        for _ in range(MAX_LIST_ROUNDS):
            first, entries, is_settled = await self._get_round(path, MAX_PAGES)
            found |= {entry.get("number"): entry for entry in entries}
            if is_settled:
                break
        return first, list(found.values())

    async def _get_round(self, path: str, max_pages: int) -> tuple[GitHubReply, list[dict[str, object]], bool]:
        first = reply = await self.get(path)
        entries, pages, is_unchanged = _objects(reply.data), 1, reply.is_unchanged
        while reply.status == 200 and reply.next_url and pages < max_pages:
            reply = await self.get(reply.next_url)
            entries += _objects(reply.data)
            is_unchanged = is_unchanged and reply.is_unchanged
            pages += 1
        return first, entries, is_unchanged or pages == 1

    async def write(self, method: str, path: str, body: object = None, *, is_idempotent: bool = True) -> GitHubReply:
        """Send a change. One that is not idempotent is never repeated here after its answer was lost."""
        answer, was_repeated = await self._send(method, self._url(path), body, is_idempotent=is_idempotent)
        return GitHubReply(status=answer.status, data=answer.data, was_repeated=was_repeated)

    async def graphql(self, query: str, variables: Mapping[str, object]) -> dict[str, object]:
        """Return the data of a query (not of a mutation: it may be repeated). Raises for errors without any data."""
        body = {"query": query, "variables": dict(variables)}
        answer, _ = await self._send("POST", self._graphql_url(), body, is_write=False)
        found = as_dict(answer.data)
        data = found.get("data")
        if answer.status == 200 and isinstance(data, dict):
            return data
        raise self.failure(GitHubReply(status=answer.status, data=answer.data), "GraphQL")

    async def login(self) -> str:
        """Return the account that the token acts as: comments of others are never taken for ours.

        Asked by GraphQL: REST does not tell it to the tokens of Apps and workflows.
        """
        if not self._login:
            data = await self.graphql("query { viewer { login } }", {})
            self.learn_login(as_dict(data.get("viewer")).get("login"))
        if not self._login:
            raise WorkSourceFailed("GitHub did not say whose token it is.", cause=FailureCause.INVALID_ANSWER)
        return self._login

    def learn_login(self, login: object) -> None:
        """Take over the account that an answer names as the author of what we wrote: nothing is more certain."""
        if isinstance(login, str) and login:
            self._login = login

    def redact(self, text: str) -> str:
        return redact_tokens(text, self._tokens.secrets)

    def failure(self, reply: GitHubReply, what: str) -> WorkSourceFailed:
        """Return the error for a reply that the caller cannot use."""
        message = self._message(reply.data)
        if reply.status in (301, 302, 307, 308):
            text = f"GitHub says that {what} has moved."
            return WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Write the new name under repo:.")
        if reply.status in (404, 410):
            text = f"GitHub knows no {what}, or the token may not see it."
            hint = "Check repo: and that the token may read issues of this repository."
            return WorkSourceFailed(text, cause=FailureCause.NOT_FOUND, hint=hint)
        text = f"GitHub refused {what} with {reply.status}{message}."
        return WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)

    # Sending.

    async def _send(
        self,
        method: str,
        url: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        is_idempotent: bool = True,
        is_write: bool | None = None,
    ) -> tuple[HttpAnswer, bool]:
        """Return the answer, and whether an earlier attempt may have been executed without one."""
        was_lost = False
        is_write = method != "GET" if is_write is None else is_write
        async with self._lock:
            for attempt in range(1, MAX_TRIES + 1):
                await self._wait_for_turn(is_write=is_write)
                try:
                    answer = await self._send_once(method, url, body, headers or {})
                    self._read_clock_and_limits(answer)
                    failure = self._classify(answer)
                except WorkSourceFailed as error:
                    answer, failure = None, error
                    if error.cause is FailureCause.RATE_LIMITED:  # of the request for an App's token
                        self._hold(error.retry_after or SECONDARY_LIMIT_WAIT)
                if answer is not None and failure is None:
                    self._secondary_limits = 0
                    return answer, was_lost
                assert failure is not None
                is_limit = failure.cause is FailureCause.RATE_LIMITED
                if answer is not None and answer.status == 401 and attempt == 1 and self._tokens.renew():
                    continue
                was_lost = was_lost or (not is_limit and not failure.permanent)
                may_repeat = is_limit or (not failure.permanent and is_idempotent)
                if not may_repeat or attempt == MAX_TRIES:
                    raise failure
                if not is_limit:
                    await self._sleep(FIRST_BACKOFF.total_seconds() * 2 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    async def _send_once(self, method: str, url: str, body: object, headers: Mapping[str, str]) -> HttpAnswer:
        token = await self._tokens.token()
        common = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "User-Agent": "herdbeat",
            "X-GitHub-Api-Version": API_VERSION,
        }
        return await self._transport.request(method, url, {**common, **headers}, body)

    async def _wait_for_turn(self, *, is_write: bool) -> None:
        """Wait until no limit is in force and the last write is long enough ago. Raises for a limit that is long."""
        now = self._clock.now()
        if self._held_until is not None and self._held_until > now:
            wait = self._held_until - now
            if wait > self._max_wait:
                raise _rate_limited(wait)
            await self._sleep(wait.total_seconds())
        self._held_until = None
        if not is_write:
            return
        if self._last_write_at is not None:
            wait = self._last_write_at + self._write_interval - self._clock.now()
            if wait > timedelta():
                await self._sleep(wait.total_seconds())
        self._last_write_at = self._clock.now()

    def _read_clock_and_limits(self, answer: HttpAnswer) -> None:
        server_now = _parse_http_date(answer.headers.get("Date"))
        if server_now is not None:
            self._server_ahead = server_now - self._clock.now()
        if answer.status < 400 and answer.headers.get("X-RateLimit-Remaining") == "0":
            self._hold(self._until_reset(answer))  # this one was the last; the next would be refused

    def _classify(self, answer: HttpAnswer) -> WorkSourceFailed | None:
        """Return the error that an answer stands for; None if the caller has to look at it."""
        if answer.status in (403, 429):
            wait = self._limit_wait(answer)
            if wait is not None:
                self._hold(wait)
                return _rate_limited(wait)
        message = self._message(answer.data)
        if answer.status == 401:
            text = f"GitHub does not accept the token{message}."
            hint = "Check the variable that auth.token_env names, or the App's key and ids."
            return WorkSourceFailed(text, cause=FailureCause.AUTHENTICATION, hint=hint)
        if answer.status in (403, 429):
            text = f"The token may not do this{message}."
            hint = "It needs Issues: read and write and Metadata: read (Pull requests, too, if those are the items)."
            return WorkSourceFailed(text, cause=FailureCause.PERMISSION, hint=hint)
        if answer.status >= 500:
            return WorkSourceFailed(f"GitHub answered {answer.status}{message}.", cause=FailureCause.UNAVAILABLE)
        return None

    def _limit_wait(self, answer: HttpAnswer) -> timedelta | None:
        """Return how long a limit lasts; None if the answer is no limit."""
        retry_after = answer.headers.get("Retry-After", "")
        if retry_after.isdecimal():
            return timedelta(seconds=min(int(retry_after), 86_400))
        if answer.headers.get("X-RateLimit-Remaining") == "0":
            return self._until_reset(answer)
        if answer.status == 429 or "rate limit" in self._message(answer.data).lower():
            wait = min(SECONDARY_LIMIT_WAIT * (1 << self._secondary_limits), MAX_SECONDARY_LIMIT_WAIT)
            self._secondary_limits = min(self._secondary_limits + 1, 10)
            return wait
        return None

    def _until_reset(self, answer: HttpAnswer) -> timedelta:
        reset = answer.headers.get("X-RateLimit-Reset", "")
        if not reset.isdecimal() or int(reset) > 253_402_300_799:
            return SECONDARY_LIMIT_WAIT
        return max(datetime.fromtimestamp(int(reset), UTC) - self.server_now, timedelta()) + timedelta(seconds=1)

    def _hold(self, wait: timedelta) -> None:
        until = self._clock.now() + wait
        self._held_until = max(until, self._held_until or until)

    def _message(self, data: object) -> str:
        text = data.get("message") if isinstance(data, dict) else None
        if not isinstance(text, str) and isinstance(data, dict) and isinstance(data.get("errors"), list):
            texts = [each.get("message") for each in data["errors"] if isinstance(each, dict)]
            text = next((each for each in texts if isinstance(each, str)), None)
        return f": {truncate_for_message(self.redact(text), 160).rstrip('.')}" if isinstance(text, str) else ""

    # Addresses.

    def _url(self, path: str) -> str:
        return path if path.startswith(("http://", "https://")) else self._api_url + path

    def _graphql_url(self) -> str:
        """Return the address of GraphQL: an Enterprise Server has it beside /api/v3, not under it."""
        base = self._api_url.removesuffix("/v3") if self._api_url.endswith("/api/v3") else self._api_url
        return f"{base}/graphql"

    def _next_url(self, answer: HttpAnswer) -> str:
        """Return the address of the next page, or none. It must be on the same host: the token goes with it."""
        for part in answer.headers.get("Link", "").split(","):
            target, _, parameters = part.partition(";")
            if 'rel="next"' in parameters:
                url = target.strip().removeprefix("<").removesuffix(">")
                if urlsplit(url)[:2] != urlsplit(self._api_url)[:2]:
                    text = "GitHub's next page is on another host, which does not get the token."
                    raise WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)
                return url
        return ""


def _rate_limited(wait: timedelta) -> WorkSourceFailed:
    seconds = round(wait.total_seconds())
    text = f"GitHub's rate limit is reached; it lasts {seconds} s more."
    return WorkSourceFailed(text, cause=FailureCause.RATE_LIMITED, retry_after=wait)


def _objects(data: object) -> list[dict[str, object]]:
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _parse_http_date(text: str | None) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return parsed.replace(tzinfo=UTC) if parsed is not None and parsed.tzinfo is None else parsed
