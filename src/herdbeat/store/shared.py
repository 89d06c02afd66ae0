"""What a store that several nodes share has beside its ledger: a clock for all, and word of what others change."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from herdbeat.store.rows import StopRequest


class SharedStore(Protocol):
    """Its calls block: each is for a thread of its own."""

    def now(self) -> datetime:
        """The store's own clock. Raises StoreUnavailable."""
        ...

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call back whenever somebody has changed something, until closed. A hint only: some may be lost."""
        ...

    def list_stop_requests(self, node_id: int) -> Sequence[StopRequest]:
        """Which runs of a node somebody elsewhere wants to end. Raises StoreUnavailable."""
        ...

    def ack_stop_requests(self, node_id: int, run_ids: Sequence[int]) -> None:
        """These were taken up. What was asked of runs that are over is forgotten, too."""
        ...

    def publish_output(self, texts: Mapping[int, str]) -> None:
        """The end of what runs have printed until now, for who looks from elsewhere. Raises StoreUnavailable."""
        ...

    def abandon_node(self) -> None:
        """This process is no node any more: what it writes is nobody's, until it joins again."""
        ...

    def close(self) -> None: ...
