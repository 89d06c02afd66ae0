"""What an action did, shown on the page that follows it, with the command line and the way back."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

from herdbeat.service.commands.base import Command

MAX_NOTICES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoAction:
    """One command that restores schedules."""

    command: Command[Any]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageNotice:
    """`command_line` does the same in a terminal; `undo` restores what was before, if that is possible."""

    text: str
    actor: str
    command_line: str = ""
    undo: tuple[UndoAction, ...] = ()
    is_refusal: bool = False
    key: str = ""


class NoticeBoard:
    """Keeps notices until their page is shown. A cookie has the key, so an address never does."""

    def __init__(self) -> None:
        self._notices: OrderedDict[str, PageNotice] = OrderedDict()
        self._lock = Lock()

    def put(self, notice: PageNotice) -> str:
        key = secrets.token_urlsafe(12)
        with self._lock:
            self._notices[key] = notice
            while len(self._notices) > MAX_NOTICES:
                self._notices.popitem(last=False)
        return key

    def find(self, key: str, actor: str) -> PageNotice | None:
        """Return the notice, if it is the actor's own."""
        with self._lock:
            notice = self._notices.get(key)
        return notice if notice is not None and notice.actor == actor else None

    def take(self, key: str, actor: str) -> PageNotice | None:
        """Return the notice and forget it: an undo happens once."""
        notice = self.find(key, actor)
        if notice is not None:
            with self._lock:
                self._notices.pop(key, None)
        return notice
