"""The same load twice, alone and beside a burden, in a fresh folder: printed side by side."""

from bench.alone import Measured, fresh_folder, ours
from bench.lateness import row_of
from bench.race import table


def compared(burden: str, name: str, *, rate: int, **arguments: object) -> Measured:
    """The measurement `name` of ours, which answers with how late beats were `alone` and `burdened`."""
    print(f"{rate} beats a second, alone and {burden}", flush=True)
    with fresh_folder() as folder:
        found = ours(name, folder, rate=rate, **arguments)
    rows = [("lateness in ms", "p50", "p99", "longest", "starts")]
    rows += [(what, *row_of(found[what])) for what in ("alone", "burdened")]
    print(table(rows))
    return found
