-- Statements on the rules of schedules in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: add_rule_states
INSERT INTO rule_state (schedule_id, rule, matches, active, fired_at, outcome, reads, error, run_id, at)
SELECT :schedule, rule, matches, active, fired_at, outcome, reads, error, :run, :now
  FROM :rows AS given (rule text, matches integer, active integer, fired_at bigint, outcome text, reads text, error text);

-- name: states_of_rules
SELECT rule, matches, active, fired_at FROM rule_state WHERE schedule_id = :schedule;

-- name: schedules_of_target
SELECT schedule.id, schedule.name FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE target.name = :target AND schedule.removed_at IS NULL ORDER BY schedule.id;
