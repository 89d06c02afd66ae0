"""What a run has to know, read once: targets and briefs, kept until the fleet is changed."""

from functools import lru_cache

from herdbeat.domain.brief import Brief
from herdbeat.domain.target import Target
from herdbeat.store.reader import SqliteReader

KEPT = 10_000


class SqliteShelf:
    """Looks things up beside the writer. Used by the event loop's thread alone."""

    def __init__(self, reader: SqliteReader) -> None:
        self._reader = reader
        self._targets = lru_cache(maxsize=KEPT)(reader.target)
        self._briefs = lru_cache(maxsize=KEPT)(self._read_brief)

    def target(self, target_id: int) -> Target:
        return self._targets(target_id)

    def brief(self, schedule_id: int, revision: int) -> Brief:
        """Of that revision, or a newer one: what is edited while it waits runs with its new words."""
        return self._briefs(schedule_id, revision)

    def forget(self) -> None:
        """The fleet was changed."""
        self._targets.cache_clear()
        self._briefs.cache_clear()

    def _read_brief(self, schedule_id: int, revision: int) -> Brief:  # noqa: ARG002 - the revision is the cache's key
        return self._reader.brief(schedule_id)
