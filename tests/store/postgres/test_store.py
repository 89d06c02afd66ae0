from collections.abc import Iterator

import pytest
from tests.support.agent_store_contract import AgentStoreContract
from tests.support.outbox_contract import OutboxContract
from tests.support.planner_contract import PlannerContract
from tests.support.remote_run_contract import RemoteRunContract
from tests.support.rule_store_contract import RuleStoreContract
from tests.support.store_contract import StoreContract
from tests.support.webhook_store_contract import WebhookStoreContract
from tests.support.work_claim_contract import WorkClaimContract

from herdbeat.store.location import PostgresLocation
from herdbeat.store.postgres.store import PostgresStore


class TestPostgresStore(
    StoreContract,
    AgentStoreContract,
    WorkClaimContract,
    RuleStoreContract,
    OutboxContract,
    PlannerContract,
    RemoteRunContract,
    WebhookStoreContract,
):
    @pytest.fixture
    def store(self, database: PostgresLocation) -> Iterator[PostgresStore]:
        store = PostgresStore(database)
        store.open()
        yield store
        store.close()
