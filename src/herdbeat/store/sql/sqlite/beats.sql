-- Statements on beats in SQLite's own words. Those of the other dialect have the same names.

-- name: due_beats
-- Waiting beats that are due: room became free, a retry or a catch-up slot has come, or an event arrived.
SELECT json_group_array(json_array(
           id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by, limited))
  FROM (SELECT * FROM beat WHERE wake_at <= :now ORDER BY wake_at, id LIMIT :limit);

-- name: count_catchup_beats
-- How many beats of these schedules wait only for their catch-up slot.
SELECT json_group_array(json_array(schedule_id, number))
  FROM (SELECT schedule_id, count(*) AS number FROM beat
         WHERE outcome = 'pending' AND reason = 'catch-up' AND schedule_id IN (SELECT value FROM json_each(:rows))
         GROUP BY schedule_id);

-- name: add_beats
-- Ignored where the dedup id exists already: the caller compares the count and looks which.
INSERT OR IGNORE INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, count, outcome, reason, source,
                            origin, payload, priority, wake_at, created_at, settled_at, trace)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
       (SELECT next_trace FROM schedule WHERE id = value ->> 1)
  FROM json_each(:rows);

-- name: start_beats
-- The same for one instant that starts at once, as nearly every beat does (store/row_mapping.py).
WITH given (id, schedule_id, target_id, dedup_id, due_at, source, priority, created_at) AS (VALUES :rows)
INSERT OR IGNORE INTO beat (id, schedule_id, target_id, dedup_id, due_at, last_due_at, outcome, source, priority,
                            created_at, trace)
SELECT id, schedule_id, target_id, dedup_id, due_at, due_at, 'running', source, priority, created_at,
       (SELECT next_trace FROM schedule WHERE schedule.id = given.schedule_id)
  FROM given WHERE id IS NOT NULL;

-- name: known_beats
SELECT json_group_array(json_array(beat.schedule_id, beat.dedup_id, beat.id))
  FROM json_each(:rows) JOIN beat ON beat.schedule_id = value ->> 0 AND beat.dedup_id = value ->> 1;

-- name: recorded_beats
-- The instants of a calendar within a window that have a beat already. Its dedup ids sort by time.
SELECT json_group_array(json_array(schedule_id, due_at, last_due_at))
  FROM (SELECT beat.schedule_id, beat.due_at, beat.last_due_at
          FROM json_each(:rows)
          JOIN beat ON beat.schedule_id = value ->> 0 AND beat.dedup_id > value ->> 1 AND beat.dedup_id <= value ->> 2
         ORDER BY beat.schedule_id, beat.due_at);

-- name: beats_across
-- Rows of instants that did not run and of which some are due after a moment, and some before.
SELECT json_group_array(json_array(beat.id, beat.schedule_id, beat.due_at, beat.count))
  FROM schedule
  JOIN beat ON beat.id = (SELECT newest.id FROM beat AS newest
                           WHERE newest.schedule_id = schedule.id AND newest.dedup_id BETWEEN 'cron:' AND :last_id
                           ORDER BY newest.dedup_id DESC LIMIT 1)
 WHERE schedule.kind = 'cron' AND schedule.removed_at IS NULL AND schedule.quarantine IS NULL
   AND beat.last_due_at > :now AND {never_started};

-- name: cut_beats
UPDATE beat SET count = value ->> 1, last_due_at = value ->> 2 FROM json_each(:rows) WHERE beat.id = value ->> 0;

-- name: move_beats_back
UPDATE beat SET wake_at = max(:now, wake_at - :step) WHERE outcome = 'pending' AND wake_at > :now;

-- name: extend_beats
UPDATE beat SET count = count + (value ->> 1), last_due_at = value ->> 2, settled_at = value ->> 3
  FROM json_each(:rows) WHERE beat.id = value ->> 0;

-- name: change_beats
UPDATE beat SET outcome = value ->> 1, reason = value ->> 2, wake_at = value ->> 3, attempt = value ->> 4,
                settled_at = value ->> 5
  FROM json_each(:rows) WHERE beat.id = value ->> 0;

-- name: settle_beats
-- For beats that ran, without a reason.
WITH given (id) AS (VALUES :rows)
UPDATE beat SET outcome = 'ran', reason = '', wake_at = NULL, settled_at = :now WHERE id IN (SELECT id FROM given);

-- name: expire_waiting
-- Settle the waiting beats of removed schedules. A beat that already has a run is `ran`.
UPDATE beat SET outcome = CASE WHEN attempt > 1 OR limited > 0 THEN 'ran' ELSE 'skipped' END,
                reason = CASE WHEN attempt > 1 OR limited > 0 THEN '' ELSE 'expired' END, wake_at = NULL, settled_at = :now
 WHERE outcome = 'pending' AND schedule_id IN (SELECT value FROM json_each(:rows));

-- name: targets_with_waiting
SELECT json_group_array(DISTINCT target_id) FROM beat
 WHERE outcome = 'pending' AND reason IN ('at_capacity', 'already_running');

-- name: suspect_beats
SELECT json_group_array(id)
  FROM (SELECT id FROM beat
         WHERE outcome = 'pending' AND wake_at IS NULL AND reason NOT IN ('at_capacity', 'already_running') LIMIT :limit);

-- name: stuck_beats
SELECT json_group_array(json_array(beat.id, target.name || '/' || schedule.name))
  FROM beat JOIN schedule ON schedule.id = beat.schedule_id JOIN target ON target.id = beat.target_id
 WHERE beat.id IN (SELECT value FROM json_each(:rows)) AND beat.outcome = 'pending' AND beat.wake_at IS NULL
   AND beat.reason NOT IN ('at_capacity', 'already_running');

-- name: wake_beats
UPDATE beat SET wake_at = :now FROM json_each(:rows) WHERE beat.id = value AND beat.outcome = 'pending';

-- name: pending_beats
SELECT json_group_array(json_array(id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by, limited))
  FROM (SELECT * FROM beat WHERE outcome = 'pending' ORDER BY id LIMIT :limit);

-- name: old_beats
-- Beats that were settled long ago. The newest beat and the beat of the newest run stay: the next ids follow theirs.
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

-- name: schedules_with_surplus_beats
SELECT json_group_array(schedule_id)
  FROM (SELECT schedule_id FROM beat GROUP BY schedule_id HAVING count(*) > :most);

-- name: surplus_beats
-- The beats of a schedule beyond its newest `:most`.
SELECT json_group_array(id)
  FROM (SELECT id, outcome, source, dedup_id, created_at FROM beat
         WHERE schedule_id = :schedule ORDER BY due_at DESC, id DESC LIMIT -1 OFFSET :most)
 WHERE outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND (created_at < :kept_since
        OR NOT (source IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill', 'delay') OR dedup_id LIKE 'delay:%'))
   AND id <> (SELECT max(id) FROM beat)
   AND id <> coalesce((SELECT beat_id FROM run ORDER BY id DESC LIMIT 1), 0);

-- name: drop_beats
DELETE FROM beat
 WHERE id IN (SELECT value FROM json_each(:rows)) AND outcome IN ('ran', 'skipped', 'missed', 'merged')
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.beat_id = beat.id);

-- name: pending_beats_of_schedules
SELECT json_group_array(json_array(
           id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by, limited))
  FROM (SELECT * FROM beat
         WHERE outcome = 'pending' AND schedule_id IN (SELECT value FROM json_each(:rows)) ORDER BY id);

-- name: rename_beats
UPDATE OR IGNORE beat SET dedup_id = value ->> 1 FROM json_each(:rows) WHERE beat.id = value ->> 0;

-- name: last_backfill
SELECT coalesce(max(CAST(substr(dedup_id, instr(dedup_id, '#') + 1) AS INTEGER)), 0)
  FROM beat WHERE schedule_id = :id AND dedup_id >= 'backfill:' AND dedup_id < 'backfill;';

-- name: list_beats
SELECT beat.id, target.name AS target, schedule.name, beat.due_at, beat.last_due_at, beat.count, beat.outcome, beat.reason,
       beat.source, beat.origin, beat.dedup_id, beat.settled_at,
       (SELECT json_group_array(run.id) FROM run WHERE run.beat_id = beat.id) AS runs,
       (SELECT run.status FROM run WHERE run.beat_id = beat.id ORDER BY run.id DESC LIMIT 1) AS last_status
  FROM beat
  JOIN schedule ON schedule.id = beat.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE beat.id IN (SELECT value FROM json_each(:ids))
 ORDER BY beat.id DESC;

-- name: matches_beat_filter
(:outcome IS NULL OR +outcome = :outcome) AND (:since IS NULL OR +last_due_at >= :since)
   AND (:until IS NULL OR +due_at < :until) AND (:before IS NULL OR id < :before)
   AND {has_result};

-- name: of_target
(:target IS NULL OR +schedule_id IN (SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
                                       WHERE target.name = :target));

-- name: beats_of_schedules
SELECT id FROM beat
 WHERE schedule_id IN (SELECT value FROM json_each(:schedules)) AND {matches_beat_filter} ORDER BY +id DESC LIMIT :limit;

-- name: spans
-- Beats and runs since a moment, including runs that started before it and are still open.
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number, run.status,
       coalesce(run.started_at, run.claimed_at) AS started_at, run.finished_at, run.id AS run
  FROM beat LEFT JOIN run ON run.beat_id = beat.id
 WHERE beat.schedule_id IN (SELECT value FROM json_each(:ids))
   AND (+beat.last_due_at >= :since OR +beat.outcome = 'pending'
        OR (run.id IS NOT NULL AND coalesce(run.finished_at, :until) >= :since))
   AND +beat.due_at < :until
 ORDER BY +beat.id DESC LIMIT :limit;

-- name: newest_beats_of
-- The newest beats of each schedule: clock beats by their dedup ids, which begin with the kind and go on with the time,
-- so that the newest are the last in their index; those of events, which have runs, by their runs.
SELECT beat.id FROM json_each(:ids) AS wanted CROSS JOIN json_each(:kinds) AS kind
  JOIN beat ON beat.id IN (SELECT id FROM beat
                            WHERE schedule_id = wanted.value
                              AND dedup_id >= kind.value || ':' AND dedup_id < kind.value || ';'
                            ORDER BY dedup_id DESC LIMIT :limit)
 UNION
SELECT run.beat_id FROM json_each(:ids) AS wanted
  JOIN run ON run.id IN (SELECT id FROM run WHERE schedule_id = wanted.value ORDER BY id DESC LIMIT :limit);

-- name: spans_of_runs
-- The newest runs of each schedule that reach into a period, a few of each: one of every second does not hide the others.
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number, run.status,
       coalesce(run.started_at, run.claimed_at) AS started_at, run.finished_at, run.id AS run
  FROM json_each(:ids) AS wanted
  JOIN run ON run.id IN (SELECT id FROM run WHERE schedule_id = wanted.value AND id < :before_run ORDER BY id DESC LIMIT :each)
  JOIN beat ON beat.id = run.beat_id
 WHERE coalesce(run.finished_at, :since) >= :since
 ORDER BY run.id DESC;

-- name: spans_of_unrun_beats
-- What did not run: skipped, missed and merged instants that reach into a period, and those that wait.
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number,
       NULL AS status, NULL AS started_at, NULL AS finished_at, NULL AS run
  FROM (SELECT id FROM beat WHERE outcome IN ('skipped', 'missed', 'merged')
           AND last_due_at >= :since AND due_at <= :until AND schedule_id {in_ids} ORDER BY id DESC LIMIT :limit) AS found
  JOIN beat ON beat.id = found.id
 UNION ALL
SELECT schedule_id, outcome, due_at, last_due_at, count, NULL, NULL, NULL, NULL FROM beat
 WHERE outcome = 'pending' AND due_at <= :until AND schedule_id {in_ids};
