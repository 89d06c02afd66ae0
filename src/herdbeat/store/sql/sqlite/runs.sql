-- Statements on runs in SQLite's own words. Those of the other dialect have the same names.

-- name: add_runs
WITH given (id, beat_id, schedule_id, attempt) AS (VALUES :rows)
INSERT INTO run (id, beat_id, schedule_id, attempt, status, node_id, claimed_at)
SELECT id, beat_id, schedule_id, attempt, 'running', :node, :now FROM given WHERE id IS NOT NULL;

-- name: finish_runs
-- A closed run stays closed.
UPDATE run SET status = value ->> 1, started_at = value ->> 2, finished_at = value ->> 3, code = value ->> 4,
               error = value ->> 5, response = value ->> 6, summary = value ->> 7, usage = value ->> 8,
               session = value ->> 9, log = value ->> 10, note = value ->> 11
  FROM json_each(:rows)
 WHERE run.id = value ->> 0 AND run.status = 'running';

-- name: finish_succeeded_runs
-- The same for a success without a message, usage or log.
WITH given (id, started_at) AS (VALUES :rows)
UPDATE run SET status = 'succeeded', started_at = given.started_at, finished_at = :now
  FROM given WHERE run.id = given.id AND run.status = 'running';

-- name: open_runs
SELECT json_group_array(json_array(run.id, run.beat_id, run.schedule_id, run.attempt, beat.target_id,
                                   coalesce(run.source, beat.source),
                                   EXISTS (SELECT 1 FROM reservation WHERE reservation.run_id = run.id), beat.limited,
                                   EXISTS (SELECT 1 FROM work_claim WHERE work_claim.run_id = run.id)))
  FROM run JOIN beat ON beat.id = run.beat_id WHERE run.status = 'running' AND run.id IN (SELECT value FROM json_each(:rows));

-- name: orphaned_runs
SELECT json_group_array(id) FROM run WHERE status = 'running' AND node_id <> :node;

-- name: unfinished_runs
SELECT json_group_array(id) FROM (SELECT id FROM run WHERE status = 'running' ORDER BY id LIMIT :limit);

-- name: runs_of_beats
SELECT json_group_array(json_array(run.id, run.claimed_at, coalesce(run.finished_at, run.claimed_at)))
  FROM json_each(:rows) JOIN beat ON beat.id = value JOIN run ON run.beat_id = beat.id
 WHERE beat.outcome IN ('ran', 'skipped', 'missed', 'merged');

-- name: drop_runs
DELETE FROM run WHERE id IN (SELECT value FROM json_each(:rows)) AND status <> 'running';

-- name: mark_retries
UPDATE run SET source = 'retry', origin = value ->> 1 FROM json_each(:rows) WHERE run.id = value ->> 0;

-- name: last_usage
-- Of the newest `:limit` runs, those that reported their usage.
SELECT json_group_array(json_array(wanted.value,
           (SELECT json_group_array(json(usage))
              FROM (SELECT usage FROM run WHERE run.schedule_id = wanted.value ORDER BY id DESC LIMIT :limit)
             WHERE usage IS NOT NULL)))
  FROM json_each(:rows) AS wanted;

-- name: output_of
-- A file has one node, which keeps the output of its runs in files beside it.
SELECT NULL WHERE :id IS NULL;

-- name: matches_run_filter
(:declined OR +status <> 'skipped') AND (:status IS NULL OR +status = :status) AND (:run IS NULL OR id = :run) AND (:beat IS NULL OR +beat_id = :beat)
   AND (:since IS NULL OR claimed_at >= :since) AND (:before IS NULL OR id < :before);

-- name: runs_of_schedules
SELECT id FROM run
 WHERE schedule_id IN (SELECT value FROM json_each(:schedules)) AND {matches_run_filter} ORDER BY +id DESC LIMIT :limit;
