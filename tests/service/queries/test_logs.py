"""The output of runs, as it was and as it comes: by the files and the ledger alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from herdbeat.runners.run_log import LogStream, RunLog
from herdbeat.service.queries.logs import LogEntryKind, LogFeed, LogSelection
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd


@contextmanager
def feed_of(herd: SimulatedHerd, selection: LogSelection | None = None) -> Iterator[LogFeed]:
    reader = SqliteReader(herd.store.path)
    try:
        yield LogFeed(reader, herd.store.path.parent, selection or LogSelection())
    finally:
        reader.close()


def say(herd: SimulatedHerd, run_id: int, *words: str) -> None:
    log = RunLog(herd.store.path.parent, run_id, herd.clock, 10_000)
    for word in words:
        log.write(LogStream.OUT, word)
    log.close()


def told(feed: LogFeed, herd: SimulatedHerd) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for each in feed.poll(herd.now)]


async def test_past_output_is_returned_run_by_run_with_start_and_end(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("a", every="1h")
        await herd.tick()
        say(herd, 1, "one\ntwo\n", "no end of line")

        with feed_of(herd) as feed:
            past = feed.past(herd.now, since=None, lines=None)

        assert [(each.kind, each.text) for each in past] == [
            (LogEntryKind.STARTED, "first-run"),
            (LogEntryKind.OUT, "one"),
            (LogEntryKind.OUT, "two"),
            (LogEntryKind.OUT, "no end of line"),
            (LogEntryKind.ENDED, ""),
        ]


async def test_a_follower_hears_a_run_that_is_going_and_those_that_come(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("busy", every="1h", runner=busy)
        await herd.tick()
        with feed_of(herd) as feed:
            begun = feed.past(herd.now, since=None, lines=10)

            silent = told(feed, herd)
            say(herd, 1, "half a ", "line\n")
            spoken = told(feed, herd)
            say(herd, 1, "last words")
            busy.let_go()
            herd.schedule("other", every="1h")
            await herd.tick()
            ended = told(feed, herd)
            after = told(feed, herd)

        assert [each.kind for each in begun] == [LogEntryKind.STARTED]
        assert (silent, after) == ([], [])
        assert spoken == [(LogEntryKind.OUT, "half a line")]
        assert sorted(ended) == sorted(
            [
                (LogEntryKind.OUT, "last words"),
                (LogEntryKind.ENDED, ""),
                (LogEntryKind.STARTED, "first-run"),
                (LogEntryKind.ENDED, ""),
            ]
        )


async def test_only_output_of_selected_runs_is_returned(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("triage/a", every="1h")
        herd.schedule("triage/b", every="1h", max_concurrent=2)
        herd.schedule("other", every="1h")
        await herd.tick()

        heard = {}
        for words in (("triage",), ("triage/b",), ("tri*/a", "other")):
            with feed_of(herd, LogSelection(names=words)) as feed:
                heard[words] = {each.run.schedule for each in feed.past(herd.now, since=None, lines=None)}

        assert heard == {
            ("triage",): {"triage/a", "triage/b"},
            ("triage/b",): {"triage/b"},
            ("tri*/a", "other"): {"triage/a", "other"},
        }


async def test_a_follower_of_one_run_is_done_when_that_has_ended(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        busy = ScriptedRunner(holds=True)
        herd.schedule("busy", every="1h", runner=busy)
        await herd.tick()
        with feed_of(herd, LogSelection(runs=(1,))) as feed:
            feed.past(herd.now, since=None, lines=None)

            before = feed.is_over
            busy.let_go()
            await herd.settle()
            feed.poll(herd.now)

            assert (before, feed.is_over) == (False, True)


async def test_since_a_moment_only_what_was_said_after_it(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("a", every="1h")
        await herd.tick()
        herd.clock.advance(herd.now - MONDAY)
        later = herd.now.replace(hour=herd.now.hour + 3)
        herd.clock.advance(later - herd.now)
        await herd.tick()

        with feed_of(herd) as feed:
            past = feed.past(herd.now, since=later, lines=None)

        assert {each.run.id for each in past} == {2}
