"""What a group commit promises, with a session that does what the test tells it."""

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.store.writer import Writer

T = TypeVar("T")


class Tablet:
    """What is carved is durable only after the commit."""

    def __init__(self) -> None:
        self.durable: list[str] = []
        self.groups: list[int] = []
        self.tidied: list[int] = []
        self._draft: list[str] = []
        self.fails_to_commit = 0

    def open(self) -> None: ...

    def begin(self) -> None:
        self._draft = []

    def commit(self) -> None:
        if self.fails_to_commit:
            self.fails_to_commit -= 1
            raise StoreUnavailable("the disk is full")
        self.groups.append(len(self._draft))
        self.durable += self._draft

    def rollback(self) -> None:
        self._draft = []

    def attempt(self, work: Callable[["Tablet"], T]) -> T:
        before = list(self._draft)
        try:
            return work(self)
        except Exception:
            self._draft = before
            raise

    def carve(self, word: str) -> str:
        self._draft.append(word)
        return word

    def on_idle(self) -> None:
        self.tidied.append(len(self.durable))

    def close(self) -> None: ...


@pytest.fixture
def tablet() -> Tablet:
    return Tablet()


@pytest.fixture
def writer(tablet: Tablet) -> Writer[Tablet]:
    return Writer[Tablet](tablet, name="test-writer")


async def test_a_write_that_returned_is_durable(tablet: Tablet, writer: Writer[Tablet]) -> None:
    writer.open()

    said = await writer.write(lambda tablet: tablet.carve("beat"))

    assert said == "beat"
    assert tablet.durable == ["beat"]
    writer.close()


async def test_one_failing_write_does_not_fail_the_others_of_its_group(tablet: Tablet, writer: Writer[Tablet]) -> None:
    def bad(tablet: Tablet) -> str:
        tablet.carve("poison")
        raise ValueError("poison")

    writer.open()

    results = await asyncio.gather(
        writer.write(lambda tablet: tablet.carve("a")),
        writer.write(bad),
        writer.write(lambda tablet: tablet.carve("b")),
        return_exceptions=True,
    )

    assert results[0] == "a"
    assert isinstance(results[1], ValueError)
    assert results[2] == "b"
    assert tablet.durable == ["a", "b"]
    writer.close()


async def test_a_failed_commit_fails_its_whole_group_and_the_next_commit_works(
    tablet: Tablet, writer: Writer[Tablet]
) -> None:
    tablet.fails_to_commit = 1
    writer.open()

    with pytest.raises(StoreUnavailable):
        await writer.write(lambda tablet: tablet.carve("lost"))

    assert await writer.write(lambda tablet: tablet.carve("kept")) == "kept"
    assert tablet.durable == ["kept"]
    writer.close()


async def test_a_transaction_that_breaks_in_the_middle_keeps_no_work(tablet: Tablet, writer: Writer[Tablet]) -> None:
    def broken(_: Tablet) -> None:
        raise StoreUnavailable("the disk is full")

    writer.open()

    results = await asyncio.gather(
        writer.write(lambda tablet: tablet.carve("a")), writer.write(broken), return_exceptions=True
    )

    assert isinstance(results[1], StoreUnavailable)
    assert tablet.durable == ([] if isinstance(results[0], StoreUnavailable) else ["a"])
    writer.close()


def test_a_database_that_cannot_be_opened_is_reported_at_the_start(tablet: Tablet) -> None:
    class Closed(Tablet):
        def open(self) -> None:
            raise StoreUnavailable("no such disk")

    with pytest.raises(StoreUnavailable, match="no such disk"):
        Writer[Tablet](Closed(), name="closed").open()


def test_writes_queued_before_the_close_are_still_done(tablet: Tablet, writer: Writer[Tablet]) -> None:
    writer.open()
    for number in range(20):
        writer.write_now(lambda tablet, number=number: tablet.carve(str(number)))  # type: ignore[misc]

    writer.close()

    assert len(tablet.durable) == 20


async def test_idle_work_waits_until_no_write_is_queued(tablet: Tablet, writer: Writer[Tablet]) -> None:
    both_ordered = threading.Event()

    def first(tablet: Tablet) -> str:
        both_ordered.wait()
        return tablet.carve("first")

    writer.open()
    orders = [
        asyncio.ensure_future(writer.write(first)),
        asyncio.ensure_future(writer.write(lambda tablet: tablet.carve("second"))),
    ]
    await asyncio.sleep(0)

    both_ordered.set()
    await asyncio.gather(*orders)

    writer.close()
    assert tablet.durable == ["first", "second"]
    assert (
        1 not in tablet.tidied
    )  # the second was waiting then; after it, the stop may have been the next order already


async def test_the_error_of_a_write_that_nobody_waits_for_is_not_printed(writer: Writer[Tablet]) -> None:
    """A node that had lost its lease cancelled its tasks, and Python printed a traceback for each of their writes."""
    printed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: printed.append(context))
    may_fail = threading.Event()
    writer.open()

    def fail(_: Tablet) -> None:
        may_fail.wait()
        raise ClaimLost("its lease is over")

    task = asyncio.create_task(writer.write(fail))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    may_fail.set()
    for _ in range(2):  # after the second one the thread holds nothing of the failed one any more
        await writer.write(lambda tablet: tablet.carve("after"))
    del task
    gc.collect()

    writer.close()
    assert printed == []


async def test_a_write_to_a_closed_store_fails_at_once(writer: Writer[Tablet]) -> None:
    writer.open()
    writer.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        await writer.write(lambda tablet: tablet.carve("late"))
    with pytest.raises(StoreUnavailable, match="closed"):
        writer.write_now(lambda tablet: tablet.carve("late"))


def test_work_that_ends_a_thread_does_not_end_the_writer(tablet: Tablet, writer: Writer[Tablet]) -> None:
    def leave(_: Tablet) -> None:
        raise SystemExit

    writer.open()

    with pytest.raises(SystemExit):
        writer.write_now(leave)

    assert writer.write_now(lambda tablet: tablet.carve("beat")) == "beat"
    writer.close()
