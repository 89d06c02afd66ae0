-- Statements on runs that happen on an engine, in SQLite's own words.

-- name: list_remote_runs
SELECT json_group_array(json_array(run_id, name, executor, state, start_by, nonce, place, lease_until, extended,
                                   stop_reason, result, claim, is_open))
  FROM ({open_remote_runs});

-- name: list_remote_log
SELECT json_group_array(json_array(sequence, text)) FROM ({remote_log});

-- name: list_live_remote_names
SELECT json_group_array(name) FROM ({live_remote_names});

-- name: list_remote_runs_of_schedules
SELECT json_group_array(json_array(schedule_id, id))
  FROM ({open_remote_pairs} AND run.schedule_id IN (SELECT value FROM json_each(:rows)));

-- name: list_remote_runs_by_id
SELECT json_group_array(json_array(schedule_id, id))
  FROM ({open_remote_pairs} AND run.id IN (SELECT value FROM json_each(:rows)));
