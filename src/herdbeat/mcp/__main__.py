"""`python -m herdbeat.mcp`: the MCP server that the CLI of an agent starts."""

from herdbeat.mcp.stdio import main

raise SystemExit(main())
