-- Statements on the rules of schedules in SQLite's own words. Those of the other dialect have the same names.

-- name: add_rule_states
INSERT INTO rule_state (schedule_id, rule, matches, active, fired_at, outcome, reads, error, run_id, at)
SELECT :schedule, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, :run, :now
  FROM json_each(:rows);

-- name: states_of_rules
SELECT json_group_array(json_array(rule, matches, active, fired_at)) FROM rule_state WHERE schedule_id = :schedule;

-- name: schedules_of_target
SELECT json_group_array(json_array(id, name))
  FROM (SELECT schedule.id, schedule.name FROM schedule JOIN target ON target.id = schedule.target_id
         WHERE target.name = :target AND schedule.removed_at IS NULL ORDER BY schedule.id);
