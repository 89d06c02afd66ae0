"""The protocol: our tools on the server of the `mcp` package, which supports both generations of the protocol.

The low-level server is used, because it lets us say every schema and every error in our own words, and because the
other one puts a handler on the root logger. This module imports the package: it is an extra.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from herdbeat import __version__
from herdbeat.mcp.tool_specs import ToolSpec
from herdbeat.mcp.toolbox import ToolHost, call_tool, list_tools
from herdbeat.service.run_tokens import ToolUser

INSTRUCTIONS = (
    "herdbeat runs you on a schedule. Call whoami to see why you run now. Before you end: report_result, and wake_me "
    "or set_pace if you want to run again sooner or later than planned."
)

FindUser = Callable[[Any], ToolUser]
"""Says who makes a request, by the request of the transport; for stdio it is always the same. Blocks."""


def build_server(host: ToolHost, find_user: FindUser) -> "Server[dict[str, Any]]":
    """Return a server that asks `find_user` at every request: the token of a run may have died since the last one."""

    async def answer_list(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:  # noqa: ARG001
        user = await anyio.to_thread.run_sync(find_user, context.request)
        return ListToolsResult(tools=[_build_tool(each) for each in list_tools(user)])

    async def answer_call(context: Any, params: CallToolRequestParams) -> CallToolResult:
        find_own_user = partial(find_user, context.request)
        call = partial(call_tool, host, find_own_user, params.name, params.arguments or {})
        answer = await anyio.to_thread.run_sync(call)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)],
            structured_content=answer.data,
            is_error=answer.is_error,
        )

    return Server(
        "herdbeat",
        version=__version__,
        title="herdbeat",
        instructions=INSTRUCTIONS,
        on_list_tools=answer_list,
        on_call_tool=answer_call,
    )


def _build_tool(spec: ToolSpec) -> Tool:
    return Tool(
        name=str(spec.name),
        title=spec.title,
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=spec.output_schema,
        annotations=ToolAnnotations.model_validate(spec.annotations),
    )
