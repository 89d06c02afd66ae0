"""The MCP server: what an agent may ask about itself, and what a person's program may look at, as tools."""
