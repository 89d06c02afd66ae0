"""The first fleet that a reader starts works as written: nothing is missing, and only what says so fails."""

import re
from pathlib import Path

import pytest
from tests.support.running_fleet import RunningFleet

ROOT = Path(__file__).parent.parent
FLEET = re.compile(r'^```yaml title="herdbeat.yaml"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_fleet_of_the_first_page_runs_as_written(page: str, tmp_path: Path) -> None:
    written = FLEET.search((ROOT / page).read_text(encoding="utf-8"))
    assert written is not None
    fleet = RunningFleet(tmp_path)
    fleet.write(written[1])

    with fleet.up() as feed:
        finished = {name: feed.until("run_finished", schedule=name)["status"] for name in ("clock", "disk", "shaky")}
        explained = fleet.call("explain", "shaky")
        echoed = fleet.call("run", "echo", "--wait")

    assert finished == {"clock": "succeeded", "disk": "succeeded", "shaky": "failed"}
    assert (explained.returncode, "no space left" in explained.stdout) == (0, True)
    assert (echoed.returncode, "Sum up" in echoed.stdout) == (0, True)
