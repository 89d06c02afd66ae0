"""The application: routes, problems, security and the OpenAPI document, put together."""

import secrets
from collections.abc import Callable

from fastapi import FastAPI

from herdbeat import __version__
from herdbeat.server import api_page
from herdbeat.server.auth import Authenticator, Identify
from herdbeat.server.gateway import FleetGateway
from herdbeat.server.middleware import SECURITY_HEADERS, GuardMiddleware, HeadMiddleware
from herdbeat.server.openapi.document import complete_document, name_operation
from herdbeat.server.problems import COMMON_RESPONSES, add_problem_handlers
from herdbeat.server.routes import (
    agents,
    beats,
    bulk,
    fleet,
    history,
    hooks,
    monitoring,
    notifications,
    pauses,
    remote_runs,
    runs,
    schedules,
    session,
    targets,
)
from herdbeat.server.sse import MAX_EVENT_STREAMS, EventHub, StreamLimit
from herdbeat.server.webhooks.receiver import HookReceiver

API_PREFIX = "/api/v1"
DESCRIPTION = """The API of one herdbeat fleet.

Objects are those that the command line prints with `--json`. Times are RFC 3339 in UTC. Errors are problem documents
(RFC 9457) with a stable `code` and a `hint`. Lists have `items` and `next_cursor`, and also come as JSON lines and CSV.
"""

Extend = Callable[[FastAPI], None]
"""Adds routes of another adapter, such as the pages of the dashboard, to the application."""


_API_ROUTERS = (
    *(fleet.router, schedules.router, targets.router, runs.router, beats.router, agents.router, history.router),
    *(bulk.router, pauses.router, agents.planner_router, notifications.router, fleet.config_router),
    *(session.token_router, session.router, monitoring.router, hooks.router),
)
"""In the order of the document."""

_OTHER_ROUTERS = (
    *(session.page_router, hooks.call_router, hooks.chat_router, monitoring.probe_router, remote_runs.router),
    api_page.router,
)


def create_app(gateway: FleetGateway, *, identify: Identify | None = None, extend: tuple[Extend, ...] = ()) -> FastAPI:
    """Return the application. With `identify` it is mounted in another one, which says who is asking."""
    spec = gateway.spec
    app = FastAPI(
        title="herdbeat",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=f"{API_PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=COMMON_RESPONSES,
        generate_unique_id_function=name_operation,
        separate_input_output_schemas=False,
    )
    app.state.authenticator = Authenticator(gateway, spec.secret or secrets.token_hex(32), identify)
    app.state.login_code = spec.login_code
    app.state.event_hub = EventHub(gateway)
    app.state.event_streams = StreamLimit(MAX_EVENT_STREAMS)
    is_shared = gateway.handle.is_shared
    app.state.log_streams = StreamLimit(runs.MAX_SHARED_LOG_STREAMS if is_shared else runs.MAX_LOG_STREAMS)
    app.state.hook_receiver = HookReceiver(gateway)
    add_problem_handlers(app, SECURITY_HEADERS)
    for router in _API_ROUTERS:
        app.include_router(router, prefix=API_PREFIX)
    for router in _OTHER_ROUTERS:
        app.include_router(router)
    for each in extend:
        each(app)
    is_mounted = identify is not None or spec.socket_fd < 0
    complete_document(app)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(GuardMiddleware, settings=spec.settings, checks_host=not is_mounted)
    return app
