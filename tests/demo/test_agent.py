"""The fake agent of the demo."""

from io import StringIO

from herdbeat.demo.agent import write_answer


def test_it_thinks_aloud_and_ends_with_its_prompt() -> None:
    out = StringIO()

    write_answer("Write it down.\n", out, step_seconds=0)

    lines = out.getvalue().splitlines()
    assert lines[-1] == "done: Write it down."
    assert len(lines) == 4
