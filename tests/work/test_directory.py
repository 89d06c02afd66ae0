"""A folder as a work source: claims by rename, several nodes, deaths in the middle, odd files."""

import asyncio
import errno
import json
import multiprocessing
import os
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.fake_github import NOW

from herdbeat.domain.work_item import Report
from herdbeat.work import directory
from herdbeat.work.base import (
    ClaimStatus,
    FailureCause,
    ReleaseStatus,
    WorkClaim,
    WorkSourceFailed,
    build_item,
)
from herdbeat.work.directory import DirectorySettings, DirectorySource, taken_name

DONE = Report(succeeded=True, summary="Fixed it.")
FAILED = Report(succeeded=False, error="It broke.", attempt=1, max_attempts=2)


def source(folder: Path) -> DirectorySource:
    return DirectorySource(DirectorySettings(path=folder))


def put(folder: Path, name: str, text: str = "Do it.", *, age: int = 0) -> Path:
    path = folder / name
    path.write_text(text)
    moment = (NOW - timedelta(minutes=age)).timestamp()
    os.utime(path, (moment, moment))
    return path


def claim_of(name: str, marker: str) -> WorkClaim:
    return WorkClaim(item=build_item(name, title=""), run_marker=marker, claimed_at=NOW)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_files_are_listed_the_oldest_first(tmp_path: Path) -> None:
    put(tmp_path, "b.md", "# Fix the login\n\nIt fails.", age=1)
    put(tmp_path, "a.txt", "No heading.", age=5)

    items = await source(tmp_path).list()

    assert [(item.id, item.title) for item in items] == [("a.txt", "a"), ("b.md", "Fix the login")]
    assert items[1].body == "# Fix the login\n\nIt fails."


async def test_a_done_item_moves_with_a_sidecar(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "Do it.")
    result = await source(tmp_path).claim(build_item("a.md", title=""), "m1")
    assert names(tmp_path) == ["working/a~m1.md"]

    for _ in range(2):
        await source(tmp_path).report(claim_of("a.md", "m1"), DONE)

    assert (result.status, result.item and result.item.body) == (ClaimStatus.CLAIMED, "Do it.")
    assert names(tmp_path) == ["done/a~m1.md", "done/a~m1.md.json"]
    sidecar = json.loads((tmp_path / "done/a~m1.md.json").read_text())
    assert (sidecar["item"], sidecar["outcome"], sidecar["summary"]) == ("a.md", "succeeded", "Fixed it.")


async def test_a_failed_item_is_offered_again_until_its_last_attempt(tmp_path: Path) -> None:
    put(tmp_path, "a.md")
    work = source(tmp_path)
    await work.claim(build_item("a.md", title=""), "m1")
    await work.report(claim_of("a.md", "m1"), FAILED)
    assert names(tmp_path) == ["a.md"]

    await work.claim(build_item("a.md", title=""), "m2")
    await work.report(claim_of("a.md", "m2"), Report(succeeded=False, attempt=2, max_attempts=2))

    assert names(tmp_path) == ["failed/a~m2.md", "failed/a~m2.md.json"]


async def test_a_release_and_its_repetition(tmp_path: Path) -> None:
    put(tmp_path, "a.md")
    await source(tmp_path).claim(build_item("a.md", title=""), "m1")

    statuses = [await source(tmp_path).release(claim_of("a.md", "m1")) for _ in range(2)]

    assert statuses == [ReleaseStatus.RELEASED, ReleaseStatus.NOT_OURS]
    assert names(tmp_path) == ["a.md"]


async def test_a_claim_is_repeatable_and_lost_to_others(tmp_path: Path) -> None:
    put(tmp_path, "a.md")
    item = build_item("a.md", title="")

    statuses = [(await source(tmp_path).claim(item, marker)).status for marker in ("m1", "m1", "m2")]

    assert statuses == [ClaimStatus.CLAIMED, ClaimStatus.CLAIMED, ClaimStatus.LOST]


async def test_a_new_file_of_the_same_name_is_not_overwritten_by_a_release(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "old")
    await source(tmp_path).claim(build_item("a.md", title=""), "m1")
    put(tmp_path, "a.md", "new")

    await source(tmp_path).release(claim_of("a.md", "m1"))

    assert {path: (tmp_path / path).read_text() for path in names(tmp_path)} == {"a.md": "new", "a~m1.md": "old"}


async def test_a_node_that_dies_while_it_gives_back_offers_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.md")
    await source(tmp_path).claim(build_item("a.md", title=""), "m1")

    def die(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            directory._Folder(tmp_path).put_back("a.md", "m1")
    meanwhile = await source(tmp_path).list()
    stolen = await source(tmp_path).claim(build_item("a.md", title=""), "m2")
    released = await source(tmp_path).release(claim_of("a.md", "m1"))

    assert (meanwhile, stolen.status, released) == ((), ClaimStatus.LOST, ReleaseStatus.RELEASED)
    assert [item.id for item in await source(tmp_path).list()] == ["a.md"]


async def test_a_file_system_without_hard_links_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    put(tmp_path, "a.md")
    await source(tmp_path).claim(build_item("a.md", title=""), "m1")

    await source(tmp_path).release(claim_of("a.md", "m1"))

    assert names(tmp_path) == ["a.md"]


async def test_links_folders_pipes_and_odd_names_are_left_alone(tmp_path: Path) -> None:
    secret = put(tmp_path.parent, "secret.txt", "hunter2")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "link.md").symlink_to(secret)
    (inbox / "hard.md").hardlink_to(secret)
    (inbox / "folder.md").mkdir()
    os.mkfifo(inbox / "pipe.md")
    for name in (".hidden", "~x", "a.md~", "a.tmp", "a.PART", "line\nbreak", "\x1b[31m", "x" * 201, " a"):
        put(inbox, name)
    put(inbox, os.fsdecode(b"\xff\xfe.md"))
    before = sorted(inbox.iterdir())
    work = source(inbox)

    items = await work.list()
    claims = [await work.claim(build_item(name, title=""), "m1") for name in ("link.md", "hard.md", "folder.md")]
    outside = await work.claim(build_item("../secret.txt", title=""), "m1")

    assert items == ()
    (problem,) = await work.find_problems()
    assert problem.startswith(r"'\x1b[31m' and 4 more files are not offered")
    assert {result.status for result in [*claims, outside]} == {ClaimStatus.LOST}
    assert sorted(set(inbox.iterdir()) - {inbox / "working"}) == before
    assert secret.read_text() == "hunter2"


async def test_a_file_whose_name_looks_like_an_option_is_an_item_like_others(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    put(inbox, "-rf")
    work = source(inbox)

    (item,) = await work.list()
    claimed = await work.claim(item, "m1")
    await work.report(claim_of("-rf", "m1"), DONE)

    assert item.id == "-rf"
    assert claimed.status is ClaimStatus.CLAIMED
    assert (inbox / "done" / "-rf~m1").exists()
    assert await work.find_problems() == ()


async def test_hostile_texts_are_read_as_they_are(tmp_path: Path) -> None:
    hostile = "# {{secret}} $(rm -rf /) --flag \x1b[31m\n" + "x" * 1_000_000
    put(tmp_path, "{{a}} $(b) --c.md", hostile)
    (tmp_path / "binary.md").write_bytes(b"\xff\x00\xfe")

    items = {item.id: item for item in await source(tmp_path).list()}

    assert items["{{a}} $(b) --c.md"].title == "{{secret}} $(rm -rf /) --flag \x1b[31m"
    assert len(items["{{a}} $(b) --c.md"].body) == 200_000
    assert items["binary.md"].body == "\ufffd" * 3


async def test_a_queue_whose_folder_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "working").symlink_to(elsewhere)
    put(inbox, "a.md")

    with pytest.raises(WorkSourceFailed, match="cannot be used"):
        await source(inbox).claim(build_item("a.md", title=""), "m1")

    assert (list(elsewhere.iterdir()), (inbox / "a.md").exists()) == ([], True)


async def test_a_missing_folder_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(WorkSourceFailed, match=r"missing does not exist") as caught:
        await source(tmp_path / "missing").list()

    assert caught.value.cause is FailureCause.NOT_FOUND


@pytest.mark.parametrize("name", ["a.md", "a", ".", "a.tar.gz", "é" * 100, "x" * 200])
def test_a_taken_name_fits_and_keeps_its_ending(name: str) -> None:
    taken = taken_name(name, "m" * 100)

    assert len(taken.encode()) <= 255 - len(".json.tmp")
    assert "~" + "m" * 100 in taken
    assert Path(taken).suffix == (Path(name).suffix if len(name) > 1 else "")


def take_all(folder: str, node: str, output: "multiprocessing.SimpleQueue[list[str]]") -> None:
    """Take whatever there is, as one process of several."""

    async def work() -> list[str]:
        mine: list[str] = []
        work_source = source(Path(folder))
        while items := await work_source.list():
            for number, item in enumerate(items):
                result = await work_source.claim(item, f"{node}-{len(mine)}-{number}")
                if result.status is ClaimStatus.CLAIMED:
                    mine.append(item.id)
        return mine

    output.put(asyncio.run(work()))


def test_several_processes_on_one_folder_never_take_a_file_twice(tmp_path: Path) -> None:
    for number in range(60):
        put(tmp_path, f"{number:03}.md")
    context = multiprocessing.get_context("spawn")
    output: multiprocessing.SimpleQueue[list[str]] = context.SimpleQueue()
    processes = [context.Process(target=take_all, args=(str(tmp_path), f"n{n}", output)) for n in range(3)]

    for process in processes:
        process.start()
    taken = [name for _ in processes for name in output.get()]
    for process in processes:
        process.join()

    assert sorted(taken) == [f"{number:03}.md" for number in range(60)]
    assert len(names(tmp_path)) == 60
