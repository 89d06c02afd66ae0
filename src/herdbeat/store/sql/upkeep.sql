-- What keeps the ledger well. The questions run on a connection of their own, beside the writer: they may read a
-- whole table. The changes take ids that were found so, and look at each row again before they touch it.

-- name: suspect_schedules
-- Counters that disagree with the open runs and pending beats, and schedules that nothing will ever wake.
WITH held AS MATERIALIZED (
         SELECT schedule_id, count(*) AS running FROM run WHERE status = 'running' GROUP BY schedule_id),
     parked AS MATERIALIZED (
         SELECT schedule_id, sum(attempt = 1) AS waiting, count(*) AS open FROM beat
          WHERE outcome = 'pending' AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill')
          GROUP BY schedule_id)
SELECT json_group_array(id)
  FROM (SELECT schedule.id FROM schedule
          LEFT JOIN held ON held.schedule_id = schedule.id
          LEFT JOIN parked ON parked.schedule_id = schedule.id
         WHERE schedule.id > :after
           AND (schedule.running <> coalesce(held.running, 0)
                OR schedule.waiting <> coalesce(parked.waiting, 0)
                OR (schedule.removed_at IS NULL AND schedule.quarantine IS NULL
                    AND schedule.enabled = 1 AND schedule.disabled_by IS NULL
                    AND NOT (schedule.paused = 1 AND schedule.paused_until IS NULL)
                    AND (schedule.next_run_at IS NOT NULL AND coalesce(schedule.wake_at > schedule.next_run_at, 1)
                         OR (schedule.next_run_at IS NULL AND schedule.wake_at IS NULL
                             AND schedule.kind IN ('interval', 'cron', 'delay')
                             AND NOT (schedule.kind = 'delay' AND schedule.is_new = 0)
                             AND held.running IS NULL AND parked.open IS NULL))))
         ORDER BY schedule.id LIMIT :limit);

-- name: suspect_targets
SELECT json_group_array(id)
  FROM (SELECT target.id FROM target
          LEFT JOIN (SELECT beat.target_id, count(*) AS running FROM run JOIN beat ON beat.id = run.beat_id
                      WHERE run.status = 'running' GROUP BY beat.target_id) AS held ON held.target_id = target.id
         WHERE target.running <> coalesce(held.running, 0) LIMIT :limit);

-- name: targets_with_waiting
SELECT json_group_array(DISTINCT target_id) FROM beat
 WHERE outcome = 'pending' AND reason IN ('at_capacity', 'already_running');

-- name: suspect_beats
SELECT json_group_array(id)
  FROM (SELECT id FROM beat
         WHERE outcome = 'pending' AND wake_at IS NULL AND reason NOT IN ('at_capacity', 'already_running') LIMIT :limit);

-- name: tallies
SELECT json_group_array(json_array(
           id,
           (SELECT count(*) FROM run WHERE status = 'running' AND +schedule_id = schedule.id),
           (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id AND attempt = 1
               AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill')),
           (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id
               AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill'))))
  FROM schedule WHERE id IN (SELECT value FROM json_each(:rows));

-- name: target_tallies
SELECT json_group_array(json_array(
           id, name, running,
           (SELECT count(*) FROM run JOIN beat ON beat.id = run.beat_id
             WHERE run.status = 'running' AND beat.target_id = target.id),
           max_concurrent))
  FROM target WHERE id IN (SELECT value FROM json_each(:rows));

-- name: deaf_targets
-- A beat that waits for its own schedule is right to sleep while that schedule runs, or is going to: what is caught up
-- before it has its own time.
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

-- name: sleeping_beats
SELECT json_group_array(json_array(beat.id, target.name || '/' || schedule.name))
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = beat.target_id
 WHERE beat.id IN (SELECT value FROM json_each(:rows)) AND beat.outcome = 'pending' AND beat.wake_at IS NULL
   AND beat.reason NOT IN ('at_capacity', 'already_running');

-- name: set_counters
UPDATE schedule SET running = value ->> 1, waiting = value ->> 2 FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: set_rooms
UPDATE target SET running = value ->> 1 FROM json_each(:rows) WHERE target.id = value ->> 0;

-- name: wake_beats
UPDATE beat SET wake_at = :now FROM json_each(:rows) WHERE beat.id = value AND beat.outcome = 'pending';

-- name: wake_schedules
UPDATE schedule SET wake_at = :now FROM json_each(:rows) WHERE schedule.id = value;

-- name: pending_beats
SELECT json_group_array(json_array(id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by))
  FROM (SELECT * FROM beat WHERE outcome = 'pending' ORDER BY id LIMIT :limit);

-- name: unfinished_runs
SELECT json_group_array(id) FROM (SELECT id FROM run WHERE status = 'running' ORDER BY id LIMIT :limit);

-- name: quarantined_schedules
SELECT json_group_array(json_array(target.name || '/' || schedule.name, schedule.quarantine))
  FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE schedule.quarantine IS NOT NULL AND schedule.removed_at IS NULL;

-- name: schedule_ids
SELECT json_group_array(id)
  FROM (SELECT id FROM schedule WHERE id > :after AND removed_at IS NULL ORDER BY id LIMIT :limit);

-- name: set_marks
UPDATE schedule SET settled_until = max(settled_until, :now);

-- name: old_beats
-- Settled long ago. The newest beat and the beat of the newest run stay: the next ids are counted from theirs.
SELECT json_group_array(id)
  FROM (SELECT id FROM beat
         WHERE due_at < :before AND last_due_at < :before AND coalesce(settled_at, due_at) < :before
           AND outcome IN ('ran', 'skipped', 'missed', 'merged')
           AND (created_at < :kept_since
                OR NOT (source IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill', 'delay')
                        OR dedup_id LIKE 'delay:%'))
           AND id <> (SELECT max(id) FROM beat)
           AND id <> coalesce((SELECT beat_id FROM run ORDER BY id DESC LIMIT 1), 0)
         ORDER BY last_due_at LIMIT :limit);

-- name: crowded_schedules
SELECT json_group_array(schedule_id)
  FROM (SELECT schedule_id FROM beat GROUP BY schedule_id HAVING count(*) > :most);

-- name: surplus_beats
-- What a schedule has beyond its newest so many.
SELECT json_group_array(id)
  FROM (SELECT id, outcome, source, dedup_id, created_at FROM beat
         WHERE schedule_id = :schedule ORDER BY due_at DESC, id DESC LIMIT -1 OFFSET :most)
 WHERE outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND (created_at < :kept_since
        OR NOT (source IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill', 'delay') OR dedup_id LIKE 'delay:%'))
   AND id <> (SELECT max(id) FROM beat)
   AND id <> coalesce((SELECT beat_id FROM run ORDER BY id DESC LIMIT 1), 0);

-- name: unused_plans
-- The newest stays: its id must not be given to another plan while somebody remembers the old one.
SELECT json_group_array(id)
  FROM (SELECT id FROM plan WHERE id <> (SELECT max(id) FROM plan)
        EXCEPT SELECT plan_id FROM schedule LIMIT :limit);

-- name: runs_of_beats
SELECT json_group_array(json_array(run.id, run.claimed_at, coalesce(run.finished_at, run.claimed_at)))
  FROM json_each(:rows) JOIN beat ON beat.id = value JOIN run ON run.beat_id = beat.id
 WHERE beat.outcome IN ('ran', 'skipped', 'missed', 'merged');

-- name: drop_runs
DELETE FROM run WHERE id IN (SELECT value FROM json_each(:rows)) AND status <> 'running';

-- name: forget_tails
-- A row that is gone cannot grow: the next skip or miss begins a new one.
UPDATE schedule SET tail_id = NULL, tail = NULL
  FROM json_each(:rows) JOIN beat ON beat.id = value
 WHERE schedule.id = beat.schedule_id AND schedule.tail_id = beat.id;

-- name: drop_beats
DELETE FROM beat
 WHERE id IN (SELECT value FROM json_each(:rows)) AND outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.beat_id = beat.id);

-- name: drop_plans
DELETE FROM plan WHERE id IN (SELECT value FROM json_each(:rows)) AND id NOT IN (SELECT plan_id FROM schedule);

-- name: drop_nodes
-- Numbers of runs rise with time: who was gone before the oldest of them has none in the ledger. One that died was gone
-- when the next one came.
DELETE FROM node
 WHERE id < (SELECT max(id) FROM node)
   AND coalesce(stopped_at, (SELECT min(started_at) FROM node AS after WHERE after.id > node.id))
       < min(:before, coalesce((SELECT claimed_at FROM run ORDER BY id LIMIT 1), :before));
