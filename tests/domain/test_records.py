from datetime import timedelta

import pytest
from tests.support.record_builders import NOW, make_run_record

SECOND = timedelta(seconds=1)


def test_elapsed_time_is_never_negative() -> None:
    """`status` printed `-264ms`."""
    begun_since = make_run_record(started_at=NOW + timedelta(milliseconds=264), finished_at=None)

    assert begun_since.elapsed(NOW) == timedelta(0)


@pytest.mark.parametrize(
    ("started", "finished", "spent"),
    [
        (NOW - SECOND, None, SECOND),
        (NOW - 3 * SECOND, NOW - SECOND, 2 * SECOND),
        (None, None, 5 * SECOND),
        (NOW, NOW - SECOND, timedelta(0)),
    ],
    ids=["going", "ended", "taken and not yet started", "ended on a clock that was set back"],
)
def test_elapsed_time_counts_from_the_start_to_the_end_or_now(
    started: object, finished: object, spent: timedelta
) -> None:
    found = make_run_record(claimed_at=NOW - 5 * SECOND, started_at=started, finished_at=finished)

    assert found.elapsed(NOW) == spent
