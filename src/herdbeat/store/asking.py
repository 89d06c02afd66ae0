"""How a reader puts its questions, whatever database answers them."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class ReadConnection(Protocol):
    """A connection that cannot change anything, and the questions it knows by name. Use it from one thread.

    A value may be a list: the ids, names or patterns that are asked about.
    """

    def query(self, statement: str, values: dict[str, object]) -> Iterable[Any]: ...

    def query_one(self, statement: str, values: dict[str, object]) -> Any:
        """The first one; None if there is none."""
        ...

    def query_all(self, statement: str, values: dict[str, object]) -> list[Any]:
        """All rows in one step, for who asks thousands of times a second."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Within it, all questions are answered from the same moment."""
        ...

    def like_pattern(self, name: str) -> str:
        """A name in which `*` alone stands for anything, as the database's own patterns say it."""
        ...

    def close(self) -> None: ...
