"""The contract of every store about webhook calls. Inherit it beside `StoreContract`."""

from datetime import timedelta

from tests.support.store_contract import NOW, OpenedStore, build_beat

from herdbeat.domain.beat import BeatOutcome, SkipReason
from herdbeat.domain.decision import Source
from herdbeat.store.base import NewBeat

HOUR = timedelta(hours=1)


def _waiting_event(opened: OpenedStore, name: str, reason: str = "") -> NewBeat:
    beat = build_beat(opened.schedule(), name)
    return beat._replace(outcome=BeatOutcome.PENDING, source=Source.WEBHOOK, reason=reason, settled_at=None)


class WebhookStoreContract:
    def test_beats_are_found_by_many_dedup_ids_at_once(self, opened: OpenedStore) -> None:
        schedule = opened.schedule().id
        event = _waiting_event(opened, "webhook:a")
        (beat,) = opened.store.write_now(lambda tx: tx.add_beats([event]))

        found = opened.store.write_now(lambda tx: tx.beat_find_many([(schedule, "webhook:a"), (schedule, "webhook:b")]))

        assert found == {(schedule, "webhook:a"): beat}
        assert opened.store.write_now(lambda tx: tx.beat_find_many([])) == {}

    def test_only_waiting_events_count_as_queued(self, opened: OpenedStore) -> None:
        schedule = opened.schedule().id
        by_hand = _waiting_event(opened, "manual:1")._replace(source=Source.MANUAL)
        settled = _waiting_event(opened, "webhook:old")._replace(outcome=BeatOutcome.RAN)
        event = _waiting_event(opened, "webhook:a")
        opened.store.write_now(lambda tx: tx.add_beats([event, by_hand, settled]))

        counted = opened.store.write_now(lambda tx: tx.beat_count_queued_events([schedule, schedule + 1]))

        assert counted == {schedule: 1}

    def test_a_release_wakes_only_events_that_were_held(self, opened: OpenedStore) -> None:
        held = _waiting_event(opened, "webhook:held", SkipReason.PAUSED)
        full = _waiting_event(opened, "webhook:full", SkipReason.AT_CAPACITY)
        schedule = opened.schedule().id
        (beat, _) = opened.store.write_now(lambda tx: tx.add_beats([held, full]))

        opened.store.write_now(lambda tx: tx.beat_wake_held_events(schedule, NOW))

        assert [each.id for each in opened.store.write_now(lambda tx: tx.due_beats(NOW, 10))] == [beat]

    def test_digests_are_remembered_until_they_are_dropped(self, opened: OpenedStore) -> None:
        pair = (opened.schedule().id, "abc")
        opened.store.write_now(lambda tx: tx.webhook_add_digests([pair], NOW - HOUR))
        opened.store.write_now(lambda tx: tx.webhook_add_digests([pair], NOW))

        def known(since: timedelta) -> set[tuple[int, str]]:
            return opened.store.write_now(lambda tx: tx.webhook_known_digests([pair, (pair[0], "x")], NOW - since))

        assert known(HOUR) == {pair}
        assert known(-HOUR) == set()
        assert opened.store.write_now(lambda tx: tx.webhook_drop_digests(NOW, 10)) == 0
        assert opened.store.write_now(lambda tx: tx.webhook_drop_digests(NOW + HOUR, 10)) == 1
        assert known(HOUR) == set()
