"""`herdbeat serve`: the server alone, for a fleet that runs elsewhere or in another process."""

import asyncio
from functools import partial

from herdbeat.bootstrap.log_output import LogFormat
from herdbeat.bootstrap.server_process import ServerSupervisor
from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.fleet_handle import load_fleet_files, load_fleet_without_files
from herdbeat.cli.log_setup import choose_format, hold_messages, open_log, run_logged
from herdbeat.cli.output.render import Output
from herdbeat.cli.parser import ParsedArgs
from herdbeat.cli.server_start import BoundServer, bind_server
from herdbeat.domain.fleet import Fleet
from herdbeat.platform import handle_stop_signals


def run_serve(args: ParsedArgs, context: Context) -> Output:
    (fleet, has_files), held = hold_messages(context, partial(_load_fleet, args.value(flags.CONFIG)))
    log_format = choose_format(args, context, fleet)
    with open_log(context, log_format) as logged:
        logged.terminal.err.write(held)
        if log_format is LogFormat.TEXT:
            _serve_fleet(args, logged, fleet, has_files=has_files)
            return Output(notices=["Stopped."])
        return run_logged(lambda: _serve_fleet(args, logged, fleet, has_files=has_files))


def _load_fleet(config: str | None, context: Context) -> tuple[Fleet, bool]:
    """Return the fleet, and whether files define it."""
    fleet = load_fleet_without_files(config, context)
    return (load_fleet_files(config, context)[1], True) if fleet is None else (fleet, False)


def _serve_fleet(args: ParsedArgs, context: Context, fleet: Fleet, *, has_files: bool) -> Output:
    server = bind_server(fleet, args.value(flags.CONFIG), args, context, has_files=has_files)
    with server.listener:
        asyncio.run(_serve(server, context))
    return Output()


async def _serve(server: BoundServer, context: Context) -> None:
    def show() -> None:
        is_json = server.spec.log_format == LogFormat.JSON
        for line in server.lines():
            context.terminal.info(line) if is_json else context.terminal.print(line)
        context.terminal.out.flush()

    supervisor = ServerSupervisor(server.spec, show)
    task = asyncio.create_task(supervisor.run(), name="server supervisor")
    handle_stop_signals(asyncio.get_running_loop(), task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
