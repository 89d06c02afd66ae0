"""A node whose work sources do not make a test wait: `python -m tests.faults.work_node_process FOLDER`.

GitHub asks for a second between two changes, its pages have a hundred entries, failed requests and reports are repeated
after seconds, and an unconfirmed claim is asked about every minute. Nothing else differs from `node_process`.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from tests.faults.node_process import main

from herdbeat.scheduler import work_settle
from herdbeat.work import github, github_client

if __name__ == "__main__":
    defaults = github_client.GitHubClient.__init__.__kwdefaults__
    assert defaults is not None
    defaults["write_interval"] = timedelta(0)
    defaults["page_size"] = 3
    github_client.FIRST_BACKOFF = timedelta(seconds=0.1)
    github.COMMENT_BACKOFF_S = 0.1
    work_settle.FIRST_RETRY_DELAY = timedelta(seconds=0.3)
    work_settle.POLL_INTERVAL = work_settle.EARLY_RETRY_DELAY = timedelta(seconds=0.3)
    work_settle.SETTLE_LEASE = timedelta(seconds=2)
    asyncio.run(main(Path(sys.argv[1]), applies="--apply" in sys.argv))
