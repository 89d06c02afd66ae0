-- Statements on runs that happen on an engine, in PostgreSQL's own words.

-- name: list_remote_runs
{open_remote_runs};

-- name: list_remote_log
{remote_log};

-- name: list_live_remote_names
{live_remote_names};
