"""A fleet that the real scheduler has served for a while, and that no node serves now."""

from collections.abc import Callable
from datetime import timedelta

from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import SimulatedHerd, open_herd


async def create_fleet_history(
    cli: CommandLine, file: str, schedules: Callable[[SimulatedHerd], None], lasted: timedelta = timedelta(0)
) -> None:
    """Create it. File and ledger are in the folder of the command line; the history ends at the time of its clock."""
    cli.environ["USER"] = "you"
    (cli.folder / "herdbeat.yaml").write_text(file, encoding="utf-8")
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now() - lasted) as herd:
        schedules(herd)
        await herd.advance(lasted)
