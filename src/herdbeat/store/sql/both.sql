-- What both dialects understand as it stands. What only one of them does is in its own sheets, under the same name.

-- name: plan_text
SELECT text FROM plan WHERE id = :id;

-- name: has_budgets
SELECT EXISTS (SELECT 1 FROM budget);

-- name: running_in_all
SELECT count(*) FROM run WHERE status = 'running';

-- name: set_pace
INSERT INTO meta (key, value) VALUES ('paced_until', :free_at) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: wake_waiting
-- As many waiting beats of a target as it has room for, the highest priority and then the oldest first. One that
-- waits for its own schedule is left asleep while that runs: it could not start, and would use up another's wake.
-- Pending is said twice: one that somebody settles at this very moment would be due for ever.
UPDATE beat SET wake_at = :now
 WHERE outcome = 'pending'
   AND id IN (SELECT id FROM beat
               WHERE target_id = :target AND outcome = 'pending'
                 AND (reason = 'at_capacity'
                      OR (reason = 'already_running'
                          AND (SELECT running FROM schedule WHERE schedule.id = beat.schedule_id) = 0))
               ORDER BY priority DESC, due_at, id LIMIT :room);

-- name: fleet_name
SELECT value FROM meta WHERE key = 'fleet';

-- name: add_gap
INSERT INTO gap (from_at, until, reason) VALUES (:from_at, :until, :reason);

-- name: oldest_wake
SELECT min(wake_at) FROM schedule WHERE wake_at IS NOT NULL;

-- name: set_pause
UPDATE schedule SET paused = :paused, paused_until = :until, paused_by = :by, paused_reason = :reason WHERE id = :id;

-- name: set_disabled
UPDATE schedule SET disabled_by = :by WHERE id = :id;

-- name: count_waiting
-- First attempts only: a retry that waits is not counted as waiting.
SELECT count(*) FROM beat
 WHERE schedule_id = :id AND outcome = 'pending' AND attempt = 1
   AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill');

-- name: skip_waiting
-- A beat that has a run already is `ran`, also when its next attempt is called off.
UPDATE beat SET outcome = CASE WHEN attempt > 1 THEN 'ran' ELSE 'skipped' END,
                reason = CASE WHEN attempt > 1 THEN '' ELSE :reason END, wake_at = NULL, settled_at = :now
 WHERE schedule_id = :id AND outcome = 'pending' AND retried_by IS NULL
   AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill');

-- name: add_hint
INSERT INTO hint (schedule_id, origin, every, at, reason, expires_at, created_at)
VALUES (:id, :origin, :every, :at, :reason, :expires_at, :created_at);

-- name: end_hints
UPDATE hint SET ended_at = :now, ended_by = :by WHERE schedule_id = :id AND ended_at IS NULL;

-- name: count_hints
UPDATE schedule SET hinted = (SELECT count(*) FROM hint WHERE schedule_id = :id AND ended_at IS NULL) WHERE id = :id;

-- name: oldest_open_run
SELECT min(claimed_at) FROM run WHERE status = 'running';

-- name: ended_hints
SELECT count(*) FROM hint WHERE ended_at < :before;

-- name: drop_hints
DELETE FROM hint WHERE id IN (SELECT id FROM hint WHERE ended_at < :before LIMIT :limit);

-- name: set_skips
UPDATE schedule SET skips = :skips, skips_by = :by, skips_reason = :reason WHERE id = :id;

-- name: last_attempt
-- The newest run of the beat that a run belongs to.
SELECT run.id, run.beat_id, run.schedule_id, run.attempt, run.status, beat.outcome
  FROM run JOIN beat ON beat.id = run.beat_id
 WHERE run.beat_id = (SELECT beat_id FROM run WHERE id = :run)
 ORDER BY run.id DESC LIMIT 1;

-- name: retry_beat
UPDATE beat SET outcome = 'pending', reason = :reason, wake_at = :now, attempt = :attempt, settled_at = NULL,
                retried_by = :by
 WHERE id = :id;

-- name: drop_changes
-- Too old, or beyond the newest so many. The newest stays: its id must not be given to another.
DELETE FROM change
 WHERE id IN (SELECT id FROM change
               WHERE (at < :before OR id <= (SELECT max(id) FROM change) - :most)
                 AND id <> (SELECT max(id) FROM change)
               ORDER BY id LIMIT :limit);

-- name: old_changes
SELECT count(*) FROM change
 WHERE (at < :before OR id <= (SELECT max(id) FROM change) - :most) AND id <> (SELECT max(id) FROM change);

-- name: forget_failures
UPDATE schedule SET failures = 0 WHERE id = :id;

-- name: recent_hints
SELECT count(*) FROM hint WHERE schedule_id = :id AND origin = :origin AND created_at > :since;

-- name: drop_spend
DELETE FROM spend WHERE day < :before;
