-- Statements on the rules of schedules that both dialects understand.

-- name: rule_steps
SELECT rule, outcome, reads, error, matches, fired_at FROM rule_state WHERE schedule_id = :schedule;

-- name: past_run_columns
-- A part of other statements: what the rules of a schedule may read of its ended runs.
run.id, run.status, run.code, run.attempt, run.claimed_at, run.started_at, run.finished_at, run.response,
       beat.outcome, beat.reason, run_cost.usd,
       (SELECT items_left FROM work_claim WHERE work_claim.run_id = run.id ORDER BY id DESC LIMIT 1);

-- name: past_runs
-- Ended runs of a schedule, the newest first.
SELECT {past_run_columns}
  FROM run JOIN beat ON beat.id = run.beat_id LEFT JOIN run_cost ON run_cost.run_id = run.id
 WHERE run.schedule_id = :schedule AND run.status <> 'running' AND run.id < :before
 ORDER BY run.id DESC LIMIT :limit;

-- name: items_left
SELECT items_left FROM work_claim WHERE run_id = :run ORDER BY id DESC LIMIT 1;

-- name: siblings_of_target
SELECT schedule.id, schedule.name, plan.text
  FROM schedule JOIN target ON target.id = schedule.target_id JOIN plan ON plan.id = schedule.plan_id
 WHERE target.name = :target AND schedule.removed_at IS NULL ORDER BY schedule.id;

-- name: payload_of_beat
SELECT payload FROM beat WHERE id = :id;

-- name: failures_of_schedule
SELECT failures FROM schedule WHERE id = :schedule;

-- name: plan_of_schedule
SELECT plan.text FROM schedule JOIN plan ON plan.id = schedule.plan_id WHERE schedule.id = :schedule;
