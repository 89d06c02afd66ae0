-- Statements on targets in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: targets_due
-- How many schedules are due, and which of their targets no other node has locked.
WITH due AS MATERIALIZED (
     SELECT schedule.target_id FROM schedule JOIN plan ON plan.id = schedule.plan_id
      WHERE wake_at <= {due_time} AND {matches_node_labels} ORDER BY wake_at, schedule.id LIMIT :limit),
     taken AS MATERIALIZED (
     SELECT id FROM target WHERE id IN (SELECT target_id FROM due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM due), (SELECT array_agg(id) FROM taken);

-- name: targets_due_excluding
WITH due AS MATERIALIZED (
     SELECT schedule.target_id FROM schedule JOIN plan ON plan.id = schedule.plan_id
      WHERE wake_at >= :since AND wake_at <= {due_time} AND {matches_node_labels}
        AND NOT schedule.target_id = ANY(:beside::bigint[])
      ORDER BY wake_at, schedule.id LIMIT :limit),
     taken AS MATERIALIZED (
     SELECT id FROM target WHERE id IN (SELECT target_id FROM due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM due), (SELECT array_agg(id) FROM taken);

-- name: targets_of_due_beats
WITH due AS MATERIALIZED (
     SELECT beat.target_id FROM beat
       JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
      WHERE beat.wake_at <= {due_time} AND {matches_node_labels} ORDER BY beat.wake_at, beat.id LIMIT :limit),
     taken AS MATERIALIZED (
     SELECT id FROM target WHERE id IN (SELECT target_id FROM due) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM due), (SELECT array_agg(id) FROM taken);

-- name: lock_targets
SELECT id FROM target WHERE id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_targets_of_schedules
SELECT id FROM target
 WHERE id IN (SELECT target_id FROM schedule JOIN :rows AS given (id bigint) USING (id))
 ORDER BY id FOR NO KEY UPDATE;

-- name: lock_targets_of_runs
SELECT id FROM target
 WHERE id IN (SELECT target_id FROM :rows AS given (id bigint)
                JOIN run ON run.id = given.id JOIN beat ON beat.id = run.beat_id)
 ORDER BY id FOR NO KEY UPDATE;

-- name: target_capacity
SELECT id, max_concurrent, running,
       EXISTS (SELECT 1 FROM beat WHERE target_id = target.id AND outcome = 'pending')
  FROM target WHERE id IN (SELECT id FROM :rows AS given (id bigint));

-- name: adjust_running
UPDATE target SET running = running + given.more FROM :rows AS given (id bigint, more integer) WHERE target.id = given.id;

-- name: targets
SELECT id, name, kind, spec, origin, max_concurrent, hooks FROM target WHERE removed_at IS NULL ORDER BY id;

-- name: add_targets
INSERT INTO target (name, kind, spec, origin, max_concurrent, hooks)
SELECT name, kind, spec, origin, max_concurrent, hooks
  FROM :rows AS given (name text, kind text, spec text, origin text, max_concurrent integer, hooks text)
    ON CONFLICT (name) DO UPDATE
   SET kind = excluded.kind, spec = excluded.spec, origin = excluded.origin, max_concurrent = excluded.max_concurrent,
       hooks = excluded.hooks, revision = target.revision + 1, removed_at = NULL;

-- name: ids_of_targets
SELECT target.name, target.id FROM :rows AS given (name text) JOIN target USING (name);

-- name: change_targets
UPDATE target SET kind = given.kind, spec = given.spec, origin = given.origin, max_concurrent = given.max_concurrent,
                  hooks = given.hooks, revision = revision + 1
  FROM :rows AS given (id bigint, name text, kind text, spec text, origin text, max_concurrent integer, hooks text)
 WHERE target.id = given.id;

-- name: remove_targets
UPDATE target SET removed_at = :now FROM :rows AS given (id bigint) WHERE target.id = given.id;

-- name: suspect_targets
SELECT target.id FROM target
  LEFT JOIN (SELECT beat.target_id, count(*) AS running FROM run JOIN beat ON beat.id = run.beat_id
              WHERE run.status = 'running' GROUP BY beat.target_id) AS held ON held.target_id = target.id
 WHERE target.running <> coalesce(held.running, 0) LIMIT :limit;

-- name: target_tallies
SELECT id, name, running,
       (SELECT count(*) FROM run JOIN beat ON beat.id = run.beat_id
         WHERE run.status = 'running' AND beat.target_id = target.id),
       max_concurrent
  FROM target WHERE id IN (SELECT id FROM :rows AS given (id bigint));

-- name: stalled_targets
-- A beat that waits for its own schedule correctly sleeps while that schedule runs or is about to: catch-up beats
-- before it have their own times.
SELECT id, name, running, running, max_concurrent
  FROM target
 WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND running < max_concurrent
   AND EXISTS (SELECT 1 FROM beat
                WHERE target_id = target.id AND outcome = 'pending' AND coalesce(wake_at > :now, true)
                  AND (reason = 'at_capacity'
                       OR (reason = 'already_running'
                           AND (SELECT running FROM schedule WHERE schedule.id = beat.schedule_id) = 0
                           AND NOT EXISTS (SELECT 1 FROM beat AS ahead
                                            WHERE ahead.schedule_id = beat.schedule_id
                                              AND ahead.outcome = 'pending' AND ahead.wake_at IS NOT NULL))))
   AND NOT EXISTS (SELECT 1 FROM beat WHERE target_id = target.id AND outcome = 'pending' AND wake_at <= :now);

-- name: set_running
UPDATE target SET running = given.running FROM :rows AS given (id bigint, running integer) WHERE target.id = given.id;

-- name: targets_of
SELECT id, name, kind, spec, max_concurrent, hooks FROM target WHERE id = ANY(:ids);
