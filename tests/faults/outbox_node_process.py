"""A node that takes over the deliveries of a dead one soon: `python -m tests.faults.outbox_node_process FOLDER`.

A delivery is left to its node for minutes, because an attempt may take so long. Nothing else differs from
`node_process`.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from tests.faults.node_process import main

from herdbeat.scheduler import outbox

if __name__ == "__main__":
    outbox.DELIVERY_LEASE = timedelta(seconds=10)
    outbox.POLL_INTERVAL = timedelta(seconds=0.5)
    asyncio.run(main(Path(sys.argv[1]), applies="--apply" in sys.argv))
