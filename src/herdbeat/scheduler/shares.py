"""A large batch in shares, each written as soon as it is decided: the database is at one while we decide the next."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

WRITE_CHUNK_SIZE = 256
"""Small enough to have the database begin early, large enough for a statement to be worth its way."""


def batched(rows: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, WRITE_CHUNK_SIZE)):
        yield chunk
