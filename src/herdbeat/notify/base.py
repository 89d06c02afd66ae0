"""The contract between the outbox and the channels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from herdbeat.domain.outbox import DeliveryRecord

DEFAULT_TIMEOUT = timedelta(seconds=15)
PROGRAM_TIMEOUT = timedelta(seconds=30)
MAX_TEXT_CHARS = 1_500
"""Characters of a message to people. What is longer belongs to the page that the message links to."""


class DeliveryFailed(Exception):
    """The receiver does not have the message, as far as we know. The text has no secret in it.

    `is_final` if no repetition can help; `is_receiver_down` if other messages to the receiver would fail like this one.
    """

    def __init__(
        self,
        message: str,
        *,
        is_final: bool = False,
        is_receiver_down: bool = True,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.is_final = is_final
        self.is_receiver_down = is_receiver_down and not is_final
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """One attempt at a delivery. `spec` is the channel as the fleet file has it; `id` is the same at each attempt."""

    id: str
    spec: Mapping[str, object] = field(repr=False)
    payload: Mapping[str, object] = field(repr=False)
    now: datetime

    @property
    def whole_text(self) -> str:
        """What people read: plain text, with words of programs and agents in it."""
        return str(self.payload.get("text") or "")

    @property
    def text(self) -> str:
        """The text, as long as that of a notification may be."""
        text = self.whole_text
        return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"

    @property
    def title(self) -> str:
        """The first line of the text, without anything that ends a line."""
        return " ".join(self.text.partition("\n")[0].split())[:200]

    @property
    def url(self) -> str:
        return str(self.payload.get("url") or "")

    def option(self, name: str, default: str = "") -> str:
        value = self.spec.get(name)
        return default if value is None else str(value)


class Deliver(Protocol):
    """Sends a delivery. Raises DeliveryFailed; returning means that the receiver has it."""

    async def __call__(self, delivery: DeliveryRecord, now: datetime) -> None: ...
