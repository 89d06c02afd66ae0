"""The part of the transaction that is about episodes."""

from collections.abc import Sequence
from datetime import datetime

from herdbeat.domain.notification import ActiveCondition, Episode
from herdbeat.store.episode_reader import read_episode
from herdbeat.store.statements import Connection
from herdbeat.timestamps import to_micros


class SqlEpisodes:
    """A base of `SqlTransaction`, which sets the connection."""

    _connection: Connection

    def episode_list_live(self) -> list[Episode]:
        return sorted((read_episode(row) for row in self._connection.query("live_episodes")), key=lambda each: each.id)

    def episode_open_many(self, channel: str, conditions: Sequence[ActiveCondition], now: datetime) -> None:
        rows = [
            (channel, str(each.kind), each.subject, each.detail, to_micros(each.since), each.schedule_id)
            for each in conditions
        ]
        self._connection.execute_many("open_episodes", rows, now=to_micros(now))

    def episode_change_many(self, episodes: Sequence[Episode]) -> None:
        rows = [
            (
                each.id,
                each.detail,
                to_micros(each.clear_since),
                to_micros(each.ended_at),
                to_micros(each.told_at),
                to_micros(each.end_told_at),
                each.acked_by,
                to_micros(each.snoozed_until),
            )
            for each in episodes
        ]
        self._connection.execute_many("change_episodes", rows)

    def episode_drop(self, before: datetime, limit: int) -> int:
        return self._connection.execute("drop_episodes", before=to_micros(before), limit=limit)()
