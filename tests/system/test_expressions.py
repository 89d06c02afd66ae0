"""Our expressions mean what CEL means, wherever CEL has a value."""

import json
import subprocess
import sys

import pytest

EXPRESSIONS_PER_PROCESS = 5_000
"""Few enough that the other implementation does not crash: it counts references to None wrongly."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(1, 11))
def test_random_expressions_have_the_value_that_cel_gives_them(seed: int) -> None:
    """50,000 in all."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.cel_agreement", str(seed), str(EXPRESSIONS_PER_PROCESS)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["disagreements"] == 0, "\n".join(result["shown"])
    assert result["values"] > EXPRESSIONS_PER_PROCESS // 4
