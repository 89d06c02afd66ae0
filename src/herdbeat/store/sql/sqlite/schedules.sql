-- Statements on schedules in SQLite's own words. Those of the other dialect have the same names.
--
-- A statement of the writer takes a whole batch and returns one JSON array: one step in, one step out. The driver
-- releases Python's lock at every step, and would wait for it as often. A batch comes as one JSON array, or where it is
-- hot and holds no foreign text, as bound values (store/sqlite/connection.py).

-- name: snapshot_columns
-- A part of other statements: a schedule's snapshot, in the order of store/row_mapping.py. What few schedules have (a
-- hint, a pause, a row of skips to extend …) comes in an array of its own, or not at all.
json_array(
           id, target_id, target || '/' || name, plan_id, revision, enabled, next_run_at, next_due_at, next_source,
           next_origin, wake_at, anchor_at, settled_until, is_new, failures, runs, running, waiting,
           CASE WHEN hinted OR paused OR planned OR skips OR arm <> 1 OR tail_id IS NOT NULL OR disabled_by IS NOT NULL
                     OR quarantine IS NOT NULL OR not_before IS NOT NULL OR removed_at IS NOT NULL
                THEN json_array(
                    disabled_by, arm, paused, paused_until, paused_by, paused_reason, tail_id, tail, quarantine, skips,
                    not_before, removed_at,
                    json((SELECT json_group_array(json_array(origin, every, at, reason, expires_at, created_at))
                            FROM hint WHERE schedule_id = found.id AND ended_at IS NULL)),
                    json(CASE WHEN planned
                              THEN (SELECT json_group_array(json_array({window_columns})) FROM {open_windows}
                                     WHERE held.schedule_id = found.id AND held.is_open = 1)
                              ELSE '[]' END)) END);

-- name: due_schedules
SELECT json_group_array({snapshot_columns})
  FROM (SELECT schedule.*, target.name AS target
          FROM schedule JOIN target ON target.id = schedule.target_id
         WHERE schedule.wake_at <= :now
         ORDER BY schedule.wake_at, schedule.id
         LIMIT :limit) AS found;

-- name: due_excluding
-- The same while many schedules of saturated targets are due. The index lists them first and they would be read each
-- time, so the caller passes from when on there are others.
SELECT json_group_array({snapshot_columns})
  FROM (SELECT schedule.*, target.name AS target
          FROM schedule JOIN target ON target.id = schedule.target_id
         WHERE schedule.wake_at BETWEEN :since AND :now
           AND schedule.target_id NOT IN (SELECT value FROM json_each(:rows))
         ORDER BY schedule.wake_at, schedule.id
         LIMIT :limit) AS found;

-- name: schedule_snapshots
SELECT json_group_array({snapshot_columns})
  FROM (SELECT schedule.*, target.name AS target
          FROM json_each(:rows) AS wanted
          JOIN schedule ON schedule.id = wanted.value
          JOIN target ON target.id = schedule.target_id) AS found;

-- name: next_wake
SELECT min(at) FROM (SELECT (SELECT wake_at FROM schedule WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1) AS at
                     UNION ALL
                     SELECT (SELECT wake_at FROM beat WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1));

-- name: mark_intervals_started
-- An interval has no next time while it runs: the completion decides it.
WITH given (id, due_at) AS (VALUES :rows)
UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL, running = running + 1, tail_id = NULL,
                    last_started_at = :now, settled_until = max(settled_until, given.due_at)
  FROM given WHERE schedule.id = given.id;

-- name: count_schedules
UPDATE schedule SET running = running + (value ->> 1), waiting = waiting + (value ->> 2),
                    last_started_at = coalesce(:started, last_started_at)
  FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: change_schedules
UPDATE schedule
   SET next_run_at = value ->> 1, next_due_at = value ->> 2, next_source = value ->> 3, next_origin = value ->> 4,
       next_trace = coalesce(value ->> 5, next_trace), wake_at = value ->> 6, anchor_at = value ->> 7, settled_until = value ->> 8,
       is_new = value ->> 9, failures = value ->> 10, runs = value ->> 11, running = value ->> 12, waiting = value ->> 13,
       tail_id = value ->> 14, tail = value ->> 15, last_started_at = coalesce(value ->> 16, last_started_at),
       last_run_at = coalesce(value ->> 17, last_run_at), last_status = coalesce(value ->> 18, last_status),
       last_error = CASE WHEN value ->> 18 IS NULL THEN last_error ELSE value ->> 19 END,
       quarantine = value ->> 20
  FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: reschedule_simple
-- The same for a schedule after a simple success (store/row_mapping.py).
WITH given (id, at, source, trace, runs, running, now) AS (VALUES :rows)
UPDATE schedule
   SET next_run_at = given.at, next_due_at = given.at, wake_at = given.at, next_source = given.source,
       next_origin = '', next_trace = given.trace, runs = given.runs, running = given.running, anchor_at = given.now,
       last_run_at = given.now, is_new = 0, failures = 0, last_status = 'succeeded', last_error = NULL,
       quarantine = NULL
  FROM given WHERE schedule.id = given.id;

-- name: schedules_of
SELECT json_group_array(json_array(id, target_id, name, kind, plan_id, brief, origin, enabled))
  FROM schedule WHERE removed_at IS NULL AND target_id IN (SELECT value FROM json_each(:rows));

-- name: add_schedules
-- A removed schedule of the same name returns with its history; `settled_until` keeps its past from firing again.
INSERT INTO schedule (target_id, name, kind, plan_id, brief, origin, enabled, next_run_at, next_due_at, next_source,
                      next_origin, next_trace, wake_at, created_at, anchor_at, settled_until)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, :now, :now, :now
  FROM json_each(:rows) WHERE true
    ON CONFLICT (target_id, name) DO UPDATE
   SET kind = excluded.kind, plan_id = excluded.plan_id, brief = excluded.brief, origin = excluded.origin,
       enabled = excluded.enabled, next_run_at = excluded.next_run_at, next_due_at = excluded.next_due_at,
       next_source = excluded.next_source, next_origin = excluded.next_origin, next_trace = excluded.next_trace,
       wake_at = excluded.wake_at, anchor_at = :now, settled_until = :now, is_new = 1, failures = 0, runs = 0,
       arm = arm + 1, revision = revision + 1, quarantine = NULL, removed_at = NULL, skips = 0;

-- name: edit_schedules
UPDATE schedule
   SET kind = value ->> 3, plan_id = value ->> 4, brief = value ->> 5, origin = value ->> 6, enabled = value ->> 7,
       next_run_at = value ->> 8, next_due_at = value ->> 9, next_source = value ->> 10, next_origin = value ->> 11,
       next_trace = coalesce(value ->> 12, next_trace), wake_at = value ->> 13, settled_until = :now, revision = revision + 1,
       quarantine = NULL
  FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: move_schedules
UPDATE schedule SET origin = value ->> 1 FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: remove_schedules
UPDATE schedule SET removed_at = :now, next_run_at = NULL, next_due_at = NULL, wake_at = NULL, waiting = 0
  FROM json_each(:rows) WHERE schedule.id = value;

-- name: requeue_future_schedules
-- The clock moved back: marks and anchors that lie in the future are reset to now, and the schedules are decided again.
-- Beats that really started stay, and keep their instants. What has an open beat and no time waits for its completion.
UPDATE schedule SET anchor_at = min(anchor_at, :now), settled_until = min(settled_until, :now), next_run_at = NULL,
                    next_due_at = NULL, tail_id = NULL, tail = NULL,
                    wake_at = CASE WHEN wake_at IS NULL AND (running > 0 OR EXISTS (
                                            SELECT 1 FROM beat WHERE schedule_id = schedule.id AND outcome = 'pending'))
                                   THEN NULL ELSE :now END
 WHERE (anchor_at > :now OR settled_until > :now) AND removed_at IS NULL AND quarantine IS NULL;

-- name: suspect_schedules
-- Schedules whose counters disagree with their open runs and pending beats, and schedules that nothing will ever wake.
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

-- name: tallies
SELECT json_group_array(json_array(
           id,
           (SELECT count(*) FROM run WHERE status = 'running' AND +schedule_id = schedule.id),
           (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id AND attempt = 1
               AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill')),
           (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id
               AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill'))))
  FROM schedule WHERE id IN (SELECT value FROM json_each(:rows));

-- name: set_counters
UPDATE schedule SET running = value ->> 1, waiting = value ->> 2 FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: wake_schedules
UPDATE schedule SET wake_at = :now FROM json_each(:rows) WHERE schedule.id = value;

-- name: quarantined_schedules
SELECT json_group_array(json_array(target.name || '/' || schedule.name, schedule.quarantine))
  FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE schedule.quarantine IS NOT NULL AND schedule.removed_at IS NULL;

-- name: schedule_ids
SELECT json_group_array(id)
  FROM (SELECT id FROM schedule WHERE id > :after AND removed_at IS NULL ORDER BY id LIMIT :limit);

-- name: settle_all_schedules
UPDATE schedule SET settled_until = max(settled_until, :now);

-- name: clear_tails
-- A deleted row cannot be extended: the next skip or miss begins a new one.
UPDATE schedule SET tail_id = NULL, tail = NULL
  FROM json_each(:rows) JOIN beat ON beat.id = value
 WHERE schedule.id = beat.schedule_id AND schedule.tail_id = beat.id;

-- name: consume_skips
UPDATE schedule SET skips = max(skips - (value ->> 1), 0) FROM json_each(:rows) WHERE schedule.id = value ->> 0;

-- name: enabled_in_file
SELECT json_group_array(json_array(schedule.id, target.name, schedule.name, schedule.enabled, schedule.origin))
  FROM json_each(:rows) JOIN schedule ON schedule.id = value JOIN target ON target.id = schedule.target_id
 WHERE schedule.removed_at IS NULL;

-- name: rearm_schedules
-- Let a finished one-shot fire once more, under a new dedup id.
UPDATE schedule SET arm = arm + 1, is_new = 1, tail_id = NULL, tail = NULL
  FROM json_each(:rows) WHERE schedule.id = value;

-- name: briefs_of
SELECT json_group_array(json_array(id, brief)) FROM schedule WHERE id IN (SELECT value FROM json_each(:ids));

-- name: matches_schedule_query
-- The state only preselects: every schedule in that state matches, and service/queries/schedule_state.py decides.
schedule.removed_at IS NULL
   AND (:names IS NULL OR EXISTS (SELECT 1 FROM json_each(:names) AS wanted
                                   WHERE target.name || '/' || schedule.name GLOB wanted.value)
        OR schedule.plan_id IN (SELECT value FROM json_each(:plans)))
   AND CASE :state
         WHEN 'running'  THEN schedule.running > 0
         WHEN 'disabled' THEN schedule.enabled = 0 OR schedule.disabled_by IS NOT NULL
         WHEN 'paused'   THEN schedule.paused = 1 OR {is_in_window}
         WHEN 'late'     THEN schedule.waiting > 0 OR schedule.next_run_at <= :now OR {has_retry}
         WHEN 'failing'  THEN schedule.failures > 0 OR schedule.quarantine IS NOT NULL OR {is_unable} OR {has_retry}
         WHEN 'waiting'  THEN schedule.next_run_at IS NULL AND schedule.kind IN ('webhook', 'chat', 'manual')
         WHEN 'done'     THEN schedule.next_run_at IS NULL
         WHEN 'new'      THEN schedule.last_run_at IS NULL
         WHEN 'ok'       THEN schedule.last_run_at IS NOT NULL AND schedule.failures = 0
         ELSE 1 END;
