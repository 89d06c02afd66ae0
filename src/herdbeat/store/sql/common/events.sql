-- What the live events are read from: new rows by their ids, and the sets of rows that are still open. Only indexes that
-- other statements need anyway; nothing here is asked for while nobody listens.

-- name: beats_after
SELECT id FROM beat WHERE id > :after ORDER BY id LIMIT :limit;

-- name: open_beat_ids
-- A running beat is found by its open run: no index has it by its outcome.
SELECT id FROM beat WHERE outcome = 'pending'
 UNION
SELECT beat_id FROM run WHERE status = 'running'
 LIMIT :limit;

-- name: open_counts
-- Waiting beats and active runs of each target. Both have a small index of their own.
SELECT target.name, sum(found.count)
  FROM (SELECT target_id, count(*) AS count FROM beat WHERE outcome = 'pending' GROUP BY target_id
         UNION ALL
        SELECT schedule.target_id, count(*) FROM run JOIN schedule ON schedule.id = run.schedule_id
         WHERE run.status = 'running' GROUP BY schedule.target_id) AS found
  JOIN target ON target.id = found.target_id
 GROUP BY target.name;

-- name: growing_beats
-- The rows of skipped or missed instants that may still grow, with their counts.
SELECT beat.id, beat.count
  FROM schedule JOIN beat ON beat.id = schedule.tail_id
 WHERE schedule.tail_id IS NOT NULL AND schedule.removed_at IS NULL
 ORDER BY beat.id DESC
 LIMIT :limit;

-- name: changes_after
SELECT id, at, who, what, subject, before, after FROM change WHERE id > :after ORDER BY id LIMIT :limit;
