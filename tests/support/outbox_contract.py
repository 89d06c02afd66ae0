"""The contract of every store about deliveries. Inherit it beside `StoreContract`."""

from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from tests.support.store_contract import NOW, OpenedStore

from herdbeat.domain.notification import ActiveCondition, ConditionKind
from herdbeat.domain.outbox import DeliveryKind, DeliveryRecord, DeliveryState, NewDelivery
from herdbeat.store.base import Transaction
from herdbeat.store.location import open_reader

LEASE = NOW + timedelta(minutes=10)


def build_delivery(name: str, channel: str = "ops", *, is_once: bool = False, host: str | None = None) -> NewDelivery:
    return NewDelivery(
        message_id=f"msg_{name}",
        channel=channel,
        kind=DeliveryKind.HOOK,
        name="tell",
        spec={"type": "webhook"},
        payload={"text": "a \x00 b"},
        run_id=7,
        host=host,
        is_once=is_once,
    )


def add(opened: OpenedStore, *deliveries: NewDelivery) -> None:
    opened.store.write_now(lambda tx: tx.outbox_add(deliveries, NOW))


def take(opened: OpenedStore, now: datetime = NOW, *, fence: int = 1, host: str = "here") -> list[DeliveryRecord]:
    until = max(LEASE, now + timedelta(minutes=10))
    return opened.store.write_now(
        lambda tx: tx.outbox_take(now, until, fence=fence, host=host, limit=10, is_alone=False)
    )


def open_episode(tx: Transaction, channel: str, condition: ActiveCondition) -> None:
    tx.episode_open_many(channel, [condition], NOW)


class OutboxContract:
    def test_a_channel_sends_one_delivery_at_a_time_the_oldest_first(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a"), build_delivery("b"), build_delivery("c", "other"))

        first, second = take(opened), take(opened)
        opened.store.write_now(lambda tx: tx.outbox_end(replace(first[0], state=DeliveryState.SENT, ended_at=NOW)))
        third = take(opened)

        assert [each.message_id for each in first] == ["msg_a", "msg_c"]
        assert [(each.attempts, each.next_at) for each in first] == [(1, LEASE)] * 2
        assert second == []
        assert [each.message_id for each in third] == ["msg_b"]

    def test_a_delivery_whose_sender_is_gone_is_taken_again_when_its_lease_ends(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a"))
        (first,) = take(opened, fence=1)

        (second,) = take(opened, LEASE, fence=2)
        late = opened.store.write_now(
            lambda tx: tx.outbox_end(replace(first, state=DeliveryState.SENT, ended_at=LEASE))
        )

        assert second.message_id == first.message_id
        assert second.attempts == 2
        assert not late  # it has another sender by now

    def test_a_program_that_was_started_is_never_taken_again(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a", is_once=True))
        (started,) = take(opened)

        again = take(opened, LEASE, fence=2)
        ended = opened.store.write_now(lambda tx: tx.outbox_end_started(LEASE, "its node died", is_alone=False))
        with closing(open_reader(opened.store.location)) as reader:
            (stored,) = reader.deliveries_of_run(7)

        assert started.state is DeliveryState.STARTED
        assert again == []
        assert ended == 1
        assert (stored.state, stored.error) == (DeliveryState.UNKNOWN, "its node died")

    def test_what_a_node_was_sending_is_due_as_soon_as_the_node_is_given_up(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a"), build_delivery("b", "other", is_once=True), build_delivery("c", "third"))
        gone = opened.store.write_now(lambda tx: tx.join_node("there", 1, "test", NOW))
        assert len(take(opened, fence=-gone)) == 3

        def reclaim(tx: Transaction) -> int:
            tx.outbox_end_leases(is_alone=False)
            return tx.outbox_end_started(NOW, "its node died", is_alone=False)

        while_alive = opened.store.write_now(reclaim), take(opened, fence=-2)
        opened.store.write_now(lambda tx: tx.leave_node(gone, NOW))
        opened.store.write_now(lambda tx: tx.join_node("here", 2, "test", NOW))
        ended, again = opened.store.write_now(reclaim), take(opened, fence=-2)

        assert while_alive == (0, [])
        assert ended == 1  # the program, which is not started again
        assert [(each.message_id, each.attempts) for each in again] == [("msg_a", 2), ("msg_c", 2)]

    def test_a_program_of_another_host_is_left_to_it(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a", host="there"))

        here, there = take(opened, host="here"), take(opened, host="there")

        assert here == []
        assert [each.message_id for each in there] == ["msg_a"]

    def test_a_failed_delivery_defers_its_channel_and_a_success_wakes_it(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a"), build_delivery("b"))
        (first,) = take(opened)
        later = NOW + timedelta(minutes=5)
        opened.store.write_now(lambda tx: tx.outbox_end(replace(first, next_at=later, error="500")))

        opened.store.write_now(lambda tx: tx.outbox_defer_channel("ops", later))
        deferred = take(opened)
        next_at = opened.store.write_now(lambda tx: tx.outbox_next("here", is_alone=False))
        opened.store.write_now(lambda tx: tx.outbox_wake_channel("ops", NOW))
        woken = take(opened)

        assert deferred == []
        assert next_at == later
        assert [each.message_id for each in woken] == ["msg_a"]

    def test_only_deliveries_that_have_ended_are_dropped(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a"), build_delivery("b", "other"))
        ended, _ = take(opened)
        opened.store.write_now(lambda tx: tx.outbox_end(replace(ended, state=DeliveryState.FAILED, ended_at=NOW)))

        dropped = opened.store.write_now(lambda tx: tx.outbox_drop(NOW + timedelta(days=1), 10))
        with closing(open_reader(opened.store.location)) as reader:
            left = reader.deliveries()

        assert dropped == 1
        assert [each.message_id for each in left] == ["msg_b"]

    def test_a_message_of_the_same_id_is_written_once(self, opened: OpenedStore) -> None:
        add(opened, build_delivery("a"))

        add(opened, build_delivery("a"))

        with closing(open_reader(opened.store.location)) as reader:
            assert [each.message_id for each in reader.deliveries()] == ["msg_a"]

    def test_a_condition_of_a_subject_has_one_open_episode_per_channel(self, opened: OpenedStore) -> None:
        failing = ActiveCondition(kind=ConditionKind.FAILING, subject="a", since=NOW, detail="one", schedule_id=3)
        for channel in ("ops", "chat", "ops"):
            opened.store.write_now(partial(open_episode, channel=channel, condition=failing))

        live = opened.store.write_now(lambda tx: tx.episode_list_live())

        assert [(each.channel, each.subject, each.schedule_id) for each in live] == [("ops", "a", 3), ("chat", "a", 3)]

    def test_an_episode_that_is_told_to_its_end_is_not_live_and_can_begin_again(self, opened: OpenedStore) -> None:
        failing = ActiveCondition(kind=ConditionKind.FAILING, subject="a", since=NOW)
        opened.store.write_now(lambda tx: tx.episode_open_many("ops", [failing], NOW))
        (episode,) = opened.store.write_now(lambda tx: tx.episode_list_live())
        ended = replace(episode, ended_at=NOW, told_at=NOW, end_told_at=NOW, acked_by="me", snoozed_until=NOW)

        opened.store.write_now(lambda tx: tx.episode_change_many([ended]))
        none = opened.store.write_now(lambda tx: tx.episode_list_live())
        opened.store.write_now(lambda tx: tx.episode_open_many("ops", [failing], NOW))
        with closing(open_reader(opened.store.location)) as reader:
            stored = reader.episodes()
        dropped = opened.store.write_now(lambda tx: tx.episode_drop(NOW + timedelta(days=1), 10))

        assert none == []
        assert [each.ended_at for each in stored] == [None, NOW]
        assert stored[1] == ended
        assert dropped == 1
