"""Several nodes on one database, in any order of events: no beat is lost, and none is doubled."""

from hypothesis import HealthCheck, settings
from tests.support.multi_node_machine import MultiNodeMachine

MultiNodeMachine.TestCase.settings = settings(
    max_examples=6, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestNodes = MultiNodeMachine.TestCase
