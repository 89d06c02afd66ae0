-- Statements on what agents say through our own tools, in SQLite's own words.

-- name: list_agent_hints
SELECT json_group_array(json_array(id, every, at, expires_at, reason, run_id, request, note))
  FROM ({active_agent_hints});
