"""The server with its pages: where API, dashboard and MCP meet. `python -m herdbeat.web` is the server process."""

from collections.abc import Callable

from fastapi import FastAPI

from herdbeat.bootstrap.server_spec import ServerSpec
from herdbeat.dashboard.app import Dashboard
from herdbeat.mcp.http import add_mcp
from herdbeat.server.app import create_app
from herdbeat.server.auth import Identify
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.hosts import ServerPageHost, ServerToolHost
from herdbeat.server.process import EmbeddedServer as EmbeddedServer  # noqa: PLC0414 -- python_api takes it from here
from herdbeat.server.process import IdentifyUser as IdentifyUser  # noqa: PLC0414
from herdbeat.server.process import main


def create_web_app(gateway: FleetGateway, identify: Identify | None = None) -> FastAPI:
    """Return the API with the dashboard and the MCP server. With `identify` it is mounted in another application."""
    return create_app(gateway, identify=identify, extend=(_add_dashboard, _add_mcp))


def embed_server(load_spec: Callable[[], ServerSpec], identify: IdentifyUser | None) -> EmbeddedServer:
    return EmbeddedServer(load_spec, create_web_app, identify)


def _add_dashboard(app: FastAPI) -> None:
    Dashboard(ServerPageHost(app.state.authenticator)).add_to(app)


def _add_mcp(app: FastAPI) -> None:
    add_mcp(app, ServerToolHost(app.state.authenticator))


if __name__ == "__main__":
    main(create_web_app)
