"""What a store that several nodes share has beside its ledger: a clock for all, and word of what others change."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol


class Shared(Protocol):
    """Its calls block: each is for a thread of its own."""

    def now(self) -> datetime:
        """The store's own clock. Raises StoreUnavailable."""
        ...

    def listen(self, heard: Callable[[], None]) -> None:
        """Call back whenever somebody has changed something, until closed. A hint only: some may be lost."""
        ...

    def give_up(self) -> None:
        """This process is no node any more: what it writes is nobody's, until it joins again."""
        ...

    def close(self) -> None: ...
