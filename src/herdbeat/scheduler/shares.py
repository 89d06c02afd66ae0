"""A large batch in shares, each written as soon as it is decided: the database is at one while we decide the next."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SHARE = 256
"""Small enough to have the database begin early, large enough for a statement to be worth its way."""


def shares(rows: Iterable[T]) -> Iterator[list[T]]:
    left = iter(rows)
    while share := list(islice(left, SHARE)):
        yield share
