"""A fleet that the real engine has served for a while, and that nobody serves any more."""

from collections.abc import Callable
from datetime import timedelta

from herdbeat.testing.command_line import CommandLine
from herdbeat.testing.herd import SimulatedHerd, open_herd


async def create_fleet_history(
    cli: CommandLine, file: str, schedules: Callable[[SimulatedHerd], None], lasted: timedelta = timedelta(0)
) -> None:
    """The file and the ledger are in the folder of the command line; the past ends at the time of its clock."""
    cli.environ["USER"] = "you"
    (cli.folder / "herdbeat.yaml").write_text(file, encoding="utf-8")
    state = cli.folder / ".herdbeat"
    state.mkdir()
    async with open_herd(state, cli.clock.now() - lasted) as herd:
        schedules(herd)
        await herd.advance(lasted)
