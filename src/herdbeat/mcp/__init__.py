"""The MCP server: tools for agents about their own schedules, and for programs of people that read the fleet."""
