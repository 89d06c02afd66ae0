-- Statements on the rules of schedules in SQLite's own words. Those of the other dialect have the same names.

-- name: add_rule_states
WITH given (schedule_id, rule, matches, active, fired_at, outcome, reads, error, run_id) AS (VALUES :rows)
INSERT INTO rule_state (schedule_id, rule, matches, active, fired_at, outcome, reads, error, run_id, at)
SELECT schedule_id, rule, matches, active, fired_at, outcome, reads, error, run_id, :now
  FROM given WHERE schedule_id IS NOT NULL;

-- name: drop_rule_states
DELETE FROM rule_state WHERE schedule_id IN (SELECT value FROM json_each(:rows));

-- name: states_of_rules
SELECT json_group_array(json_array(schedule_id, rule, matches, active, fired_at))
  FROM rule_state WHERE schedule_id IN (SELECT value FROM json_each(:rows));

-- name: schedules_of_target
SELECT json_group_array(json_array(id, name))
  FROM (SELECT schedule.id, schedule.name FROM schedule JOIN target ON target.id = schedule.target_id
         WHERE target.name = :target AND schedule.removed_at IS NULL ORDER BY schedule.id);

-- name: past_runs_by_run
-- The same as `past_runs` for many runs at once, each of them first.
SELECT given.id, {past_run_columns}
  FROM run AS given
  JOIN run ON run.id IN (SELECT past.id FROM run AS past
                          WHERE past.schedule_id = given.schedule_id AND past.status <> 'running' AND past.id < given.id
                          ORDER BY past.id DESC LIMIT :limit)
  JOIN beat ON beat.id = run.beat_id LEFT JOIN run_cost ON run_cost.run_id = run.id
 WHERE given.id {in_ids}
 ORDER BY run.id DESC;
