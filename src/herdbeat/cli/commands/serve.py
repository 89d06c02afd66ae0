"""`herdbeat serve`: the server alone, for a fleet that runs elsewhere or in another process."""

import asyncio
import signal

from herdbeat.bootstrap.server_process import ServerSupervisor
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files, load_fleet_without_files
from herdbeat.cli.log_output import log_to_terminal
from herdbeat.cli.output.render import Output
from herdbeat.cli.parser import ParsedArgs
from herdbeat.cli.server_start import BoundServer, bind_server


def run_serve(args: ParsedArgs, context: Context) -> Output:
    config = args.value(flags.CONFIG)
    fleet = load_fleet_without_files(config, context)
    has_files = fleet is None
    if fleet is None:
        _, fleet = load_fleet_files(config, context)
    server = bind_server(fleet, config, args, context, has_files=has_files)
    with server.listener, log_to_terminal(context.terminal):
        asyncio.run(_serve(server, context))
    return Output(notices=["Stopped."])


async def _serve(server: BoundServer, context: Context) -> None:
    def show() -> None:
        for line in server.lines():
            context.terminal.print(line)
        context.terminal.out.flush()

    supervisor = ServerSupervisor(server.spec, show)
    task = asyncio.create_task(supervisor.run(), name="server supervisor")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
