-- Statements on targets in SQLite's own words. Those of the other dialect have the same names.

-- name: target_capacity
SELECT json_group_array(json_array(id, max_concurrent, running,
           EXISTS (SELECT 1 FROM beat WHERE target_id = target.id AND outcome = 'pending')))
  FROM target WHERE id IN (SELECT value FROM json_each(:rows));

-- name: adjust_running
WITH given (id, more) AS (VALUES :rows)
UPDATE target SET running = running + given.more FROM given WHERE target.id = given.id;

-- name: targets
SELECT json_group_array(json_array(id, name, kind, spec, origin, max_concurrent, hooks))
  FROM target WHERE removed_at IS NULL;

-- name: add_targets
INSERT INTO target (name, kind, spec, origin, max_concurrent, hooks)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(:rows) WHERE true
    ON CONFLICT (name) DO UPDATE
   SET kind = excluded.kind, spec = excluded.spec, origin = excluded.origin, max_concurrent = excluded.max_concurrent,
       hooks = excluded.hooks, revision = revision + 1, removed_at = NULL;

-- name: ids_of_targets
SELECT json_group_array(json_array(target.name, target.id)) FROM json_each(:rows) JOIN target ON target.name = value;

-- name: change_targets
UPDATE target SET kind = value ->> 2, spec = value ->> 3, origin = value ->> 4, max_concurrent = value ->> 5,
                  hooks = value ->> 6, revision = revision + 1
  FROM json_each(:rows) WHERE target.id = value ->> 0;

-- name: remove_targets
UPDATE target SET removed_at = :now FROM json_each(:rows) WHERE target.id = value;

-- name: suspect_targets
SELECT json_group_array(id)
  FROM (SELECT target.id FROM target
          LEFT JOIN (SELECT beat.target_id, count(*) AS running FROM run JOIN beat ON beat.id = run.beat_id
                      WHERE run.status = 'running' GROUP BY beat.target_id) AS held ON held.target_id = target.id
         WHERE target.running <> coalesce(held.running, 0) LIMIT :limit);

-- name: target_tallies
SELECT json_group_array(json_array(
           id, name, running,
           (SELECT count(*) FROM run JOIN beat ON beat.id = run.beat_id
             WHERE run.status = 'running' AND beat.target_id = target.id),
           max_concurrent))
  FROM target WHERE id IN (SELECT value FROM json_each(:rows));

-- name: stalled_targets
-- A beat that waits for its own schedule correctly sleeps while that schedule runs or is about to: catch-up beats
-- before it have their own times.
SELECT json_group_array(json_array(id, name, running, running, max_concurrent))
  FROM target
 WHERE id IN (SELECT value FROM json_each(:rows)) AND running < max_concurrent
   AND EXISTS (SELECT 1 FROM beat
                WHERE target_id = target.id AND outcome = 'pending' AND coalesce(wake_at > :now, 1)
                  AND (reason = 'at_capacity'
                       OR (reason = 'already_running'
                           AND (SELECT running FROM schedule WHERE schedule.id = beat.schedule_id) = 0
                           AND NOT EXISTS (SELECT 1 FROM beat AS ahead
                                            WHERE ahead.schedule_id = beat.schedule_id
                                              AND ahead.outcome = 'pending' AND ahead.wake_at IS NOT NULL))))
   AND NOT EXISTS (SELECT 1 FROM beat WHERE target_id = target.id AND outcome = 'pending' AND wake_at <= :now);

-- name: set_running
UPDATE target SET running = value ->> 1 FROM json_each(:rows) WHERE target.id = value ->> 0;

-- name: targets_of
SELECT json_group_array(json_array(id, name, kind, spec, max_concurrent, hooks))
  FROM target WHERE id IN (SELECT value FROM json_each(:ids));
