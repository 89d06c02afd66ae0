-- The ids of beats and runs that are wanted, newest first, each way by another index (store/finding.py chooses).
-- A plus before a column keeps SQLite from choosing another index for it.

-- name: schedules_named
-- Also those that were removed: their history stays.
SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE target.name = :target AND (:name IS NULL OR schedule.name = :name)
 LIMIT :limit;

-- name: wanted_beats
(:outcome IS NULL OR +outcome = :outcome) AND (:since IS NULL OR +last_due_at >= :since)
   AND (:until IS NULL OR +due_at < :until) AND (:before IS NULL OR id < :before);

-- name: of_target
(:target IS NULL OR +schedule_id IN (SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
                                       WHERE target.name = :target));

-- name: newest_beats
SELECT id FROM beat WHERE {wanted_beats} AND {of_target} ORDER BY id DESC LIMIT :limit;

-- name: beats_of_schedules
SELECT id FROM beat
 WHERE schedule_id IN (SELECT value FROM json_each(:schedules)) AND {wanted_beats} ORDER BY +id DESC LIMIT :limit;

-- name: beats_that_wait
SELECT id FROM beat WHERE outcome = 'pending' AND {wanted_beats} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: unusual_beats
SELECT id FROM beat
 WHERE outcome IN ('skipped', 'missed', 'merged') AND outcome = :outcome AND {wanted_beats} AND {of_target}
 ORDER BY id DESC LIMIT :limit;

-- name: beats_since
SELECT id FROM beat WHERE last_due_at >= :since LIMIT :limit;

-- name: recent_beats
SELECT id FROM beat WHERE last_due_at >= :since AND {wanted_beats} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: wanted_runs
(:declined OR +status <> 'skipped') AND (:status IS NULL OR +status = :status) AND (:run IS NULL OR id = :run) AND (:beat IS NULL OR +beat_id = :beat)
   AND (:since IS NULL OR claimed_at >= :since) AND (:before IS NULL OR id < :before);

-- name: newest_runs
SELECT id FROM run WHERE {wanted_runs} AND {of_target} ORDER BY id DESC LIMIT :limit;

-- name: runs_of_schedules
SELECT id FROM run
 WHERE schedule_id IN (SELECT value FROM json_each(:schedules)) AND {wanted_runs} ORDER BY +id DESC LIMIT :limit;

-- name: runs_of_beat
SELECT id FROM run WHERE beat_id = :beat AND {wanted_runs} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: runs_that_go
SELECT id FROM run WHERE status = 'running' AND {wanted_runs} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: unusual_runs
SELECT id FROM run
 WHERE status NOT IN ('running', 'succeeded') AND status = :status AND {wanted_runs} AND {of_target}
 ORDER BY id DESC LIMIT :limit;
