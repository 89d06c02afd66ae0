-- Statements on what agents say through our own tools, in PostgreSQL's own words.

-- name: list_agent_hints
{active_agent_hints};
