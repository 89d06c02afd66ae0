"""What the timeline of an issue says about its claims. Pure: entries in, answers out.

A claim is a comment of ours whose first line is a hidden marker. It counts from the moment that the ready label was
last added: whatever came before belongs to an earlier offer. The claim with the lowest comment id holds the issue.
GitHub answers 404 to all but one of those who remove the label, and still two may succeed: if a person adds the label
again between them, or if an answer was lost.

A label that we add ourselves after a claim is no new offer: who may offer, and what was edited since, is asked of the
person who added it before. Our account may be that person's own, so the markers tell the two apart, not the account.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdbeat.errors import TimeParseError
from herdbeat.timestamps import parse_timestamp
from herdbeat.work.http import as_dict, as_text

UNLABELLED_FOR = timedelta(minutes=10)
"""How long an issue must have had neither label before an unconfirmed claim of ours gives it back."""

CLOCK_TOLERANCE = timedelta(minutes=1)
"""By how much GitHub's clock and the store's may differ."""

_MARKER_PATTERN = re.compile(r"<!-- herdbeat:(claim|report|retry)=([A-Za-z0-9._-]{1,100}) -->")
_INSIDERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


def claim_marker(run_marker: str) -> str:
    return f"<!-- herdbeat:claim={run_marker} -->"


def report_marker(run_marker: str, *, offers_again: bool) -> str:
    """Return the first line of a report. After a `retry` we add the ready label ourselves."""
    return f"<!-- herdbeat:{'retry' if offers_again else 'report'}={run_marker} -->"


def parse_marker(body: str) -> tuple[str, str] | None:
    """Return kind and run marker of a comment that begins with one."""
    found = _MARKER_PATTERN.match(body)
    return (found[1], found[2]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One entry. `label` is case-folded, as GitHub compares labels; `marker` is its kind and the run's marker."""

    event: str
    id: int
    actor: str
    is_bot: bool
    is_insider: bool
    at: datetime
    label: str = ""
    marker: tuple[str, str] | None = None


def parse_timeline(entries: Iterable[dict[str, object]]) -> list[TimelineEntry]:
    """Return the entries that matter here, oldest first. Others, and those without a time, are left out."""
    return [entry for each in entries if (entry := _parse_entry(each)) is not None]


def _parse_entry(entry: dict[str, object]) -> TimelineEntry | None:
    event = entry.get("event")
    if event not in ("labeled", "unlabeled", "renamed", "commented"):
        return None
    at = parse_time(entry.get("created_at"))
    if at is None:
        return None
    actor, label = as_dict(entry.get("actor") or entry.get("user")), as_dict(entry.get("label"))
    entry_id = entry.get("id")
    return TimelineEntry(
        event=event,
        id=entry_id if isinstance(entry_id, int) else 0,
        actor=as_text(actor.get("login")),
        is_bot=actor.get("type") == "Bot",
        is_insider=entry.get("author_association") in _INSIDERS,
        at=at,
        label=as_text(label.get("name")).casefold(),
        marker=parse_marker(as_text(entry.get("body"))) if event == "commented" else None,
    )


def parse_time(value: object) -> datetime | None:
    try:
        return parse_timestamp(value) if isinstance(value, str) else None
    except TimeParseError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueHistory:
    """The timeline of one issue, read by the account `login`. Label names are case-folded."""

    entries: Sequence[TimelineEntry]
    login: str
    ready: str
    in_progress: str

    @property
    def offer(self) -> TimelineEntry | None:
        """The entry that added the ready label, if it is still there."""
        newest = self._newest_of_ready()
        return newest if newest is not None and newest.event == "labeled" else None

    @property
    def personal_offer(self) -> TimelineEntry | None:
        """The entry by which a person, not we, last added it."""
        offer, has_claim = None, False
        for entry in self.entries:
            if entry.event == "labeled" and entry.label == self.ready:
                if not (has_claim and entry.actor == self.login):
                    offer = entry
                has_claim = False
            elif entry.marker and entry.actor == self.login and entry.marker[0] != "retry":
                has_claim = entry.marker[0] == "claim"
        return offer

    def renames_since(self, moment: datetime) -> list[TimelineEntry]:
        return [entry for entry in self.entries if entry.event == "renamed" and entry.at >= moment]

    def has_claim(self, run_marker: str) -> bool:
        return any(entry.marker == ("claim", run_marker) for entry in self._open_claims())

    def has_report(self, run_marker: str) -> bool:
        mine = (entry for entry in self.entries if entry.actor == self.login)
        return any(entry.marker in (("report", run_marker), ("retry", run_marker)) for entry in mine)

    def is_held_by(self, run_marker: str) -> bool:
        """True if the ready label is off and the first claim since it was added is this one."""
        claims = self._open_claims()
        return self.offer is None and bool(claims) and claims[0].marker == ("claim", run_marker)

    def is_last_claim(self, run_marker: str) -> bool:
        """True if nobody has claimed the issue after this run, however often it was offered since."""
        claims = [entry for entry in self.entries if self._is_claim(entry)]
        return bool(claims) and max(claims, key=lambda entry: entry.id).marker == ("claim", run_marker)

    def is_unclaimed(self) -> bool:
        return not self._open_claims()

    def is_taken_by_us(self, claimed_at: datetime) -> bool:
        """True if we were the last to remove the ready label, after the store's row was written."""
        newest = self._newest_of_ready()
        return (
            newest is not None
            and newest.event == "unlabeled"
            and newest.actor == self.login
            and newest.at >= claimed_at - CLOCK_TOLERANCE
        )

    def has_settled(self, now: datetime) -> bool:
        """True if neither label was added or removed for so long that no claim can still be under way."""
        changes = [entry.at for entry in self.entries if entry.label in (self.ready, self.in_progress)]
        return not changes or now - max(changes) >= UNLABELLED_FOR

    def _newest_of_ready(self) -> TimelineEntry | None:
        changes = (entry for entry in self.entries if entry.event in ("labeled", "unlabeled"))
        return next((entry for entry in reversed(list(changes)) if entry.label == self.ready), None)

    def _open_claims(self) -> list[TimelineEntry]:
        """Return the claims since the ready label was last added, the first one first."""
        found: list[TimelineEntry] = []
        for entry in self.entries:
            if entry.event == "labeled" and entry.label == self.ready:
                found.clear()
            elif self._is_claim(entry):
                found.append(entry)
        return sorted(found, key=lambda entry: entry.id)

    def _is_claim(self, entry: TimelineEntry) -> bool:
        """Only comments of ours and of people of the repository count: anybody may write such a comment."""
        is_claim = entry.marker is not None and entry.marker[0] == "claim"
        return is_claim and (entry.actor == self.login or entry.is_insider)
