-- What keeps the ledger well, under the names of upkeep.sql. The questions run on a connection of their own. The
-- changes look at each row again, under its lock, before they touch it.

-- name: suspect_schedules
-- Counters that disagree with the open runs and pending beats, and schedules that nothing will ever wake.
WITH held AS MATERIALIZED (
         SELECT schedule_id, count(*) AS running FROM run WHERE status = 'running' GROUP BY schedule_id),
     parked AS MATERIALIZED (
         SELECT schedule_id, count(*) FILTER (WHERE attempt = 1) AS waiting, count(*) AS open FROM beat
          WHERE outcome = 'pending' AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill')
          GROUP BY schedule_id)
SELECT schedule.id FROM schedule
  LEFT JOIN held ON held.schedule_id = schedule.id
  LEFT JOIN parked ON parked.schedule_id = schedule.id
 WHERE schedule.id > :after
   AND (schedule.running <> coalesce(held.running, 0)
        OR schedule.waiting <> coalesce(parked.waiting, 0)
        OR (schedule.removed_at IS NULL AND schedule.quarantine IS NULL
            AND schedule.enabled = 1 AND schedule.disabled_by IS NULL
            AND NOT (schedule.paused = 1 AND schedule.paused_until IS NULL)
            AND (schedule.next_run_at IS NOT NULL AND coalesce(schedule.wake_at > schedule.next_run_at, true)
                 OR (schedule.next_run_at IS NULL AND schedule.wake_at IS NULL
                     AND schedule.kind IN ('interval', 'cron', 'delay')
                     AND NOT (schedule.kind = 'delay' AND schedule.is_new = 0)
                     AND held.running IS NULL AND parked.open IS NULL))))
 ORDER BY schedule.id LIMIT :limit;

-- name: suspect_targets
SELECT target.id FROM target
  LEFT JOIN (SELECT beat.target_id, count(*) AS running FROM run JOIN beat ON beat.id = run.beat_id
              WHERE run.status = 'running' GROUP BY beat.target_id) AS held ON held.target_id = target.id
 WHERE target.running <> coalesce(held.running, 0) LIMIT :limit;

-- name: targets_with_waiting
SELECT DISTINCT target_id FROM beat
 WHERE outcome = 'pending' AND reason IN ('at_capacity', 'already_running');

-- name: suspect_beats
SELECT id FROM beat
 WHERE outcome = 'pending' AND wake_at IS NULL AND reason NOT IN ('at_capacity', 'already_running') LIMIT :limit;

-- name: tallies
SELECT id,
       (SELECT count(*) FROM run WHERE status = 'running' AND schedule_id = schedule.id),
       (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id AND attempt = 1
           AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill')),
       (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id
           AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill'))
  FROM schedule WHERE id IN (SELECT id FROM :rows AS given (id bigint));

-- name: target_tallies
SELECT id, name, running,
       (SELECT count(*) FROM run JOIN beat ON beat.id = run.beat_id
         WHERE run.status = 'running' AND beat.target_id = target.id),
       max_concurrent
  FROM target WHERE id IN (SELECT id FROM :rows AS given (id bigint));

-- name: deaf_targets
-- A beat that waits for its own schedule is right to sleep while that schedule runs, or is going to: what is caught up
-- before it has its own time.
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

-- name: sleeping_beats
SELECT beat.id, target.name || '/' || schedule.name
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = beat.target_id
 WHERE beat.id IN (SELECT id FROM :rows AS given (id bigint)) AND beat.outcome = 'pending' AND beat.wake_at IS NULL
   AND beat.reason NOT IN ('at_capacity', 'already_running');

-- name: set_counters
UPDATE schedule SET running = given.running, waiting = given.waiting
  FROM :rows AS given (id bigint, running integer, waiting integer) WHERE schedule.id = given.id;

-- name: set_rooms
UPDATE target SET running = given.running FROM :rows AS given (id bigint, running integer) WHERE target.id = given.id;

-- name: wake_beats
UPDATE beat SET wake_at = :now FROM :rows AS given (id bigint) WHERE beat.id = given.id AND beat.outcome = 'pending';

-- name: wake_schedules
UPDATE schedule SET wake_at = :now FROM :rows AS given (id bigint) WHERE schedule.id = given.id;

-- name: pending_beats
SELECT id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by
  FROM beat WHERE outcome = 'pending' ORDER BY id LIMIT :limit;

-- name: unfinished_runs
SELECT id FROM run WHERE status = 'running' ORDER BY id LIMIT :limit;

-- name: quarantined_schedules
SELECT target.name || '/' || schedule.name, schedule.quarantine
  FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE schedule.quarantine IS NOT NULL AND schedule.removed_at IS NULL;

-- name: schedule_ids
SELECT id FROM schedule WHERE id > :after AND removed_at IS NULL ORDER BY id LIMIT :limit;

-- name: set_marks
UPDATE schedule SET settled_until = greatest(settled_until, :now);

-- name: old_beats
-- Settled long ago.
SELECT id FROM beat
 WHERE due_at < :before AND last_due_at < :before AND coalesce(settled_at, due_at) < :before
   AND outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND (created_at < :kept_since
        OR NOT (source IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill', 'delay')
                OR starts_with(dedup_id, 'delay:')))
 ORDER BY last_due_at LIMIT :limit;

-- name: crowded_schedules
SELECT schedule_id FROM beat GROUP BY schedule_id HAVING count(*) > :most;

-- name: surplus_beats
-- What a schedule has beyond its newest so many.
SELECT id
  FROM (SELECT id, outcome, source, dedup_id, created_at FROM beat
         WHERE schedule_id = :schedule ORDER BY due_at DESC, id DESC OFFSET :most) AS older
 WHERE outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND (created_at < :kept_since
        OR NOT (source IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill', 'delay')
                OR starts_with(dedup_id, 'delay:')));

-- name: unused_plans
-- The newest stays: somebody may be about to write the schedule that has it.
SELECT id FROM plan
 WHERE id <> (SELECT max(id) FROM plan) AND NOT EXISTS (SELECT 1 FROM schedule WHERE plan_id = plan.id) LIMIT :limit;

-- name: runs_of_beats
SELECT run.id, run.claimed_at, coalesce(run.finished_at, run.claimed_at)
  FROM :rows AS given (id bigint) JOIN beat ON beat.id = given.id JOIN run ON run.beat_id = beat.id
 WHERE beat.outcome IN ('ran', 'skipped', 'missed', 'merged');

-- name: drop_runs
WITH printed AS (DELETE FROM run_log WHERE run_id IN (SELECT id FROM :rows AS given (id bigint)))
DELETE FROM run WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND status <> 'running';

-- name: forget_tails
-- A row that is gone cannot grow: the next skip or miss begins a new one.
UPDATE schedule SET tail_id = NULL, tail = NULL
  FROM :rows AS given (id bigint) JOIN beat ON beat.id = given.id
 WHERE schedule.id = beat.schedule_id AND schedule.tail_id = beat.id;

-- name: drop_beats
DELETE FROM beat
 WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.beat_id = beat.id);

-- name: drop_plans
DELETE FROM plan
 WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND NOT EXISTS (SELECT 1 FROM schedule WHERE plan_id = plan.id);

-- name: drop_nodes
-- With them goes word for runs that have ended without hearing of it.
WITH unheard AS (
     DELETE FROM stop_request
      WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.id = stop_request.run_id AND run.status = 'running'))
DELETE FROM node
 WHERE stopped_at < (SELECT max(coalesce(stopped_at, lease_until)) FROM node)
   AND stopped_at < least(:before::bigint, (SELECT claimed_at FROM run ORDER BY id LIMIT 1));

-- name: lost_rows
-- Rows that point at nothing.
SELECT 'run ' || run.id || ' has no beat' FROM run LEFT JOIN beat ON beat.id = run.beat_id WHERE beat.id IS NULL
 UNION ALL
SELECT 'beat ' || beat.id || ' has no schedule'
  FROM beat LEFT JOIN schedule ON schedule.id = beat.schedule_id WHERE schedule.id IS NULL
 LIMIT :limit;

-- name: try_writing
-- More than a page has room for: a row that fits into a page that is there already says nothing about the disk.
INSERT INTO meta (key, value) SELECT 'tried by doctor', string_agg(md5(number::text), '') FROM generate_series(1, 1000) AS number;
