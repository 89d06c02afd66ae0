-- Statements on beats that both dialects understand.
--
-- Several statements find the ids of beats or runs, newest first, each by another index; store/reader.py chooses one. A
-- plus before a column keeps SQLite from choosing another index for it.

-- name: wake_pending_beats
-- Wake as many waiting beats of a target as it has room for: highest priority, then oldest first. A beat that waits for
-- its own schedule stays asleep while that runs: it could not start, and would use up the place of another. `pending`
-- is checked twice: a beat that another transaction settles at this very moment would be due for ever.
UPDATE beat SET wake_at = :now
 WHERE outcome = 'pending'
   AND id IN (SELECT id FROM beat
               WHERE target_id = :target AND outcome = 'pending'
                 AND (reason = 'at_capacity'
                      OR (reason = 'already_running'
                          AND (SELECT running FROM schedule WHERE schedule.id = beat.schedule_id) = 0))
               ORDER BY priority DESC, due_at, id LIMIT :room);

-- name: never_started
-- A part of other statements: a settled beat of the clock without a run.
beat.outcome IN ('skipped', 'missed', 'merged')
   AND beat.source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill')
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.beat_id = beat.id);

-- name: withdraw_beats
-- The clock moved back: instants of a calendar or a delay that are due in the future again have no outcome, unless they
-- really started.
DELETE FROM beat
 WHERE due_at > :now AND {never_started}
   AND schedule_id IN (SELECT id FROM schedule
                        WHERE kind IN ('cron', 'delay') AND removed_at IS NULL AND quarantine IS NULL);

-- name: count_waiting
-- First attempts only: a retry that waits is not counted as waiting.
SELECT count(*) FROM beat
 WHERE schedule_id = :id AND outcome = 'pending' AND attempt = 1
   AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill');

-- name: skip_waiting
-- A beat that already has a run is `ran`, also if its next attempt is cancelled.
UPDATE beat SET outcome = CASE WHEN attempt > 1 OR limited > 0 THEN 'ran' ELSE 'skipped' END,
                reason = CASE WHEN attempt > 1 OR limited > 0 THEN '' ELSE :reason END, wake_at = NULL, settled_at = :now
 WHERE schedule_id = :id AND outcome = 'pending' AND retried_by IS NULL
   AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill');

-- name: retry_beat
UPDATE beat SET outcome = 'pending', reason = :reason, wake_at = :now, attempt = :attempt, settled_at = NULL,
                retried_by = :by, limited = 0
 WHERE id = :id;

-- name: recent_lateness
-- When the last clock beats were created and due, and the decision that says how much later they were to start.
SELECT beat.created_at, beat.due_at, beat.trace FROM beat
 WHERE beat.id > (SELECT coalesce(max(id), 0) FROM beat) - 200
   AND beat.source IN ('baseline-interval', 'baseline-cron', 'ai-interval', 'ai-oneshot')
   AND beat.outcome IN ('ran', 'running') AND beat.count = 1
 ORDER BY beat.id DESC LIMIT :limit;

-- name: traces_of_schedule
SELECT id, trace FROM beat
 WHERE schedule_id = :schedule AND id > :after AND trace IS NOT NULL
 ORDER BY id LIMIT :limit;

-- name: trace_of_beat
SELECT trace FROM beat WHERE id = :id;

-- name: beat_at
-- The beat that holds an instant: its own row, or the range it fell into.
SELECT beat.id FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE target.name = :target AND schedule.name = :name AND beat.due_at <= :at AND beat.last_due_at >= :at
 ORDER BY beat.source = 'backfill', beat.due_at DESC LIMIT 1;

-- name: waiting_beat_ids
-- Beats that are due and have not started. A retry waits on purpose until its time, and a backfill is not late.
SELECT id FROM beat
 WHERE outcome = 'pending' AND due_at <= :now AND (reason <> 'retry' OR wake_at <= :now) AND source <> 'backfill'
 ORDER BY +due_at LIMIT :limit;

-- name: neighbours
-- The newest beat that was due before a moment, and the oldest after it.
SELECT (SELECT beat.id FROM beat WHERE schedule_id = :schedule AND due_at <= :at ORDER BY due_at DESC LIMIT 1),
       (SELECT beat.id FROM beat WHERE schedule_id = :schedule AND due_at > :at ORDER BY due_at LIMIT 1);

-- name: newest_beats
SELECT id FROM beat WHERE {matches_beat_filter} AND {of_target} ORDER BY id DESC LIMIT :limit;

-- name: pending_beat_ids
SELECT id FROM beat WHERE outcome = 'pending' AND {matches_beat_filter} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: unrun_beat_ids
SELECT id FROM beat
 WHERE outcome IN ('skipped', 'missed', 'merged') AND outcome = :outcome AND {matches_beat_filter} AND {of_target}
 ORDER BY id DESC LIMIT :limit;

-- name: beat_ids_of_ended_runs
SELECT id FROM beat
 WHERE id IN (SELECT beat_id FROM run WHERE status NOT IN ('running', 'succeeded') AND status = :result)
   AND {matches_beat_filter} AND {of_target}
 ORDER BY id DESC LIMIT :limit;

-- name: has_result
(:result IS NULL
        OR :result = (SELECT run.status FROM run WHERE run.beat_id = beat.id ORDER BY run.id DESC LIMIT 1));

-- name: beats_since
SELECT id FROM beat WHERE last_due_at >= :since LIMIT :limit;

-- name: recent_beats
SELECT id FROM beat WHERE last_due_at >= :since AND {matches_beat_filter} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: oldest_waiting_beat
SELECT schedule_id, min(due_at) FROM beat
 WHERE outcome = 'pending' AND schedule_id {in_ids} GROUP BY schedule_id;

-- name: beat_marks
-- With the last run of each.
SELECT beat.id, beat.schedule_id, beat.outcome, beat.count, run.status,
       run.finished_at - coalesce(run.started_at, run.claimed_at)
  FROM beat LEFT JOIN run ON run.id = (SELECT max(each.id) FROM run AS each WHERE each.beat_id = beat.id)
 WHERE beat.id {in_ids} ORDER BY beat.due_at, beat.id;

-- name: missed_counts
-- How many instants each schedule has missed since a moment, by the newest rows of missed ones.
SELECT schedule_id, sum(count)
  FROM (SELECT schedule_id, count, last_due_at FROM beat
         WHERE outcome IN ('skipped', 'missed', 'merged') AND outcome = 'missed' ORDER BY id DESC LIMIT :limit) AS newest
 WHERE last_due_at >= :since AND last_due_at <= :until GROUP BY schedule_id;

-- name: count_outcomes
-- How many instants of each schedule had each outcome, and why.
SELECT schedule_id, outcome, reason, sum(count) FROM beat GROUP BY schedule_id, outcome, reason;

-- name: budget_skips
-- Instants that a budget has stopped. Consecutive ones are one row.
SELECT schedule_id, due_at, last_due_at FROM beat WHERE outcome = 'skipped' AND reason = 'budget_exceeded' ORDER BY id;
