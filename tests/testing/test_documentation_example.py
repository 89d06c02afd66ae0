"""The example of docs/howto/test-your-fleet.md, exactly as it is there."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-your-fleet.md"


async def test_the_example_of_the_page_passes(tmp_path: Path) -> None:
    found = re.search(r"```python\n(?P<code>.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}

    exec(found["code"], names)

    await names["test_a_failing_check_backs_off"](tmp_path)
