-- Statements on the rules of schedules in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: add_rule_states
INSERT INTO rule_state (schedule_id, rule, matches, active, fired_at, outcome, reads, error, run_id, at)
SELECT schedule_id, rule, matches, active, fired_at, outcome, reads, error, run_id, :now
  FROM :rows AS given (schedule_id bigint, rule text, matches integer, active integer, fired_at bigint, outcome text,
                       reads text, error text, run_id bigint);

-- name: drop_rule_states
DELETE FROM rule_state WHERE schedule_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: states_of_rules
SELECT schedule_id, rule, matches, active, fired_at
  FROM :rows AS given (id bigint) JOIN rule_state ON rule_state.schedule_id = given.id;

-- name: schedules_of_target
SELECT schedule.id, schedule.name FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE target.name = :target AND schedule.removed_at IS NULL ORDER BY schedule.id;

-- name: past_runs_by_run
-- The same as `past_runs` for many runs at once, each of them first.
SELECT given.id, {past_run_columns}
  FROM run AS given
 CROSS JOIN LATERAL (SELECT * FROM run AS past
                      WHERE past.schedule_id = given.schedule_id AND past.status <> 'running' AND past.id < given.id
                      ORDER BY past.id DESC LIMIT :limit) AS run
  JOIN beat ON beat.id = run.beat_id LEFT JOIN run_cost ON run_cost.run_id = run.id
 WHERE given.id {in_ids}
 ORDER BY run.id DESC;
