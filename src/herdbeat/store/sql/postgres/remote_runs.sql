-- Statements on runs that happen on an engine, in PostgreSQL's own words.

-- name: list_remote_runs
{open_remote_runs};

-- name: list_remote_log
{remote_log};

-- name: list_live_remote_names
{live_remote_names};

-- name: list_remote_runs_of_schedules
{open_remote_pairs} AND run.schedule_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: list_remote_runs_by_id
{open_remote_pairs} AND run.id IN (SELECT id FROM :rows AS given (id bigint));
