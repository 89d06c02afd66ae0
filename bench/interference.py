"""Interference: the same load measured alone and beside another load, printed side by side."""

from bench.lateness import percentile_row
from bench.subprocesses import Measurement, fresh_folder, run_ours
from bench.timing import format_table


def measure_interference(burden: str, name: str, *, rate: int, **arguments: object) -> Measurement:
    """Run our measurement `name`, and return the lateness percentiles under the keys `alone` and `burdened`."""
    print(f"{rate} beats a second, alone and {burden}", flush=True)
    with fresh_folder() as folder:
        measured = run_ours(name, folder, rate=rate, **arguments)
    rows = [("lateness in ms", "p50", "p99", "longest", "starts")]
    rows += [(what, *percentile_row(measured[what])) for what in ("alone", "burdened")]
    print(format_table(rows))
    return measured
