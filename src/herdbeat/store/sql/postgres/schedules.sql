-- Statements on schedules in PostgreSQL's own words. Those of the other dialect have the same names.
--
-- `:rows AS given (column type, …)` is a whole batch: it becomes unnest() of one array per column
-- (store/postgres/statements.py).
--
-- Locks are taken in one order: targets by id, then schedules by id, then what belongs to them. A claim never waits for
-- a lock while it holds one, so no two nodes can wait for each other.

-- name: snapshot_columns
-- A part of other statements: a schedule's snapshot, in the order of store/row_mapping.py.
found.id, found.target_id, target.name || '/' || found.name, found.plan_id, found.revision, found.enabled,
       found.next_run_at, found.next_due_at, found.next_source, found.next_origin, found.wake_at, found.anchor_at,
       found.settled_until, found.is_new, found.failures, found.runs, found.running, found.waiting,
       CASE WHEN hinted > 0 OR paused > 0 OR planned > 0 OR skips > 0 OR arm <> 1 OR tail_id IS NOT NULL OR disabled_by IS NOT NULL
                 OR quarantine IS NOT NULL OR not_before IS NOT NULL OR found.removed_at IS NOT NULL
            THEN json_build_array(
                disabled_by, arm, paused, paused_until, paused_by, paused_reason, tail_id, tail, quarantine, skips,
                not_before, found.removed_at,
                (SELECT coalesce(json_agg(json_build_array(origin, every, at, reason, expires_at, created_at)
                                          ORDER BY hint.id), '[]')
                   FROM hint WHERE schedule_id = found.id AND ended_at IS NULL),
                CASE WHEN planned > 0
                     THEN (SELECT coalesce(json_agg(json_build_array({window_columns})), '[]') FROM {open_windows}
                            WHERE held.schedule_id = found.id AND held.is_open = 1)
                     ELSE '[]' END) END;

-- name: due_time
-- The node's time or the database's, whichever is earlier: a node whose clock is wrong is never early. One that is more
-- than two seconds ahead has not noticed yet that the database's clock was set back, and takes nothing until it has.
(SELECT CASE WHEN :now > herdbeat_now() + 2000000 THEN 0 ELSE least(:now, herdbeat_now()) END);

-- name: matches_node_labels
-- Schedules for another label belong to nodes with that label, as long as there is one; else any node may record that
-- there is none.
(plan.runs_on IS NULL OR plan.runs_on = ANY(:labels::text[]) OR NOT EXISTS (
            SELECT 1 FROM node WHERE stopped_at IS NULL AND works = 1 AND lease_until > (SELECT herdbeat_now())
               AND node.labels::jsonb ? plan.runs_on));

-- name: first_target_due
-- The first due schedule, when other nodes have locked all targets that are due.
SELECT target_id FROM schedule WHERE wake_at <= {due_time} ORDER BY wake_at, id LIMIT 1;

-- name: lock_schedules
SELECT id FROM schedule WHERE id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_schedules_of_runs
SELECT id FROM schedule
 WHERE id IN (SELECT run.schedule_id FROM :rows AS given (id bigint) JOIN run ON run.id = given.id)
 ORDER BY id FOR NO KEY UPDATE;

-- name: take_due
-- In the order of the index, and only up to the limit: `IS TRUE` keeps PostgreSQL from starting with the targets, one
-- of which may have a hundred thousand schedules.
WITH found AS MATERIALIZED (
     SELECT schedule.* FROM schedule JOIN plan ON plan.id = schedule.plan_id
      WHERE wake_at >= :since AND wake_at <= {due_time} AND {matches_node_labels}
        AND (schedule.target_id IN (SELECT id FROM :rows AS given (id bigint))) IS TRUE
      ORDER BY wake_at, schedule.id LIMIT :limit
        FOR NO KEY UPDATE OF schedule SKIP LOCKED)
SELECT {snapshot_columns}
  FROM found JOIN target ON target.id = found.target_id
 ORDER BY found.wake_at, found.id;

-- name: schedule_snapshots
SELECT {snapshot_columns}
  FROM :rows AS given (id bigint) JOIN schedule AS found ON found.id = given.id
  JOIN target ON target.id = found.target_id
 ORDER BY found.wake_at, found.id;

-- name: schedules_of_runs
SELECT {snapshot_columns}
  FROM schedule AS found JOIN target ON target.id = found.target_id
 WHERE found.id IN (SELECT run.schedule_id FROM :rows AS given (id bigint) JOIN run ON run.id = given.id)
 ORDER BY found.wake_at, found.id;

-- name: next_wake
SELECT least((SELECT wake_at FROM schedule JOIN plan ON plan.id = schedule.plan_id
               WHERE wake_at IS NOT NULL AND {matches_node_labels} ORDER BY wake_at LIMIT 1),
             (SELECT beat.wake_at FROM beat
                JOIN schedule ON schedule.id = beat.schedule_id JOIN plan ON plan.id = schedule.plan_id
               WHERE beat.wake_at IS NOT NULL AND {matches_node_labels} ORDER BY beat.wake_at LIMIT 1));

-- name: mark_intervals_started
-- An interval has no next time while it runs: the completion decides it.
UPDATE schedule SET next_run_at = NULL, next_due_at = NULL, wake_at = NULL, running = running + 1, tail_id = NULL,
                    last_started_at = :now, settled_until = greatest(settled_until, given.due_at)
  FROM :rows AS given (id bigint, due_at bigint) WHERE schedule.id = given.id;

-- name: count_schedules
UPDATE schedule SET running = schedule.running + given.running, waiting = schedule.waiting + given.waiting,
                    last_started_at = coalesce(:started, last_started_at)
  FROM :rows AS given (id bigint, running integer, waiting integer) WHERE schedule.id = given.id;

-- name: change_schedules
UPDATE schedule
   SET next_run_at = given.next_run_at, next_due_at = given.next_due_at, next_source = given.next_source,
       next_origin = given.next_origin, next_trace = coalesce(given.next_trace, schedule.next_trace),
       wake_at = given.wake_at, anchor_at = given.anchor_at, settled_until = given.settled_until,
       is_new = given.is_new, failures = given.failures, runs = given.runs, running = given.running,
       waiting = given.waiting, tail_id = given.tail_id, tail = given.tail,
       last_started_at = coalesce(given.last_started_at, schedule.last_started_at),
       last_run_at = coalesce(given.last_run_at, schedule.last_run_at),
       last_status = coalesce(given.last_status, schedule.last_status),
       last_error = CASE WHEN given.last_status IS NULL THEN schedule.last_error ELSE given.last_error END,
       quarantine = given.quarantine
  FROM :rows AS given (id bigint, next_run_at bigint, next_due_at bigint, next_source text, next_origin text,
                       next_trace text, wake_at bigint, anchor_at bigint, settled_until bigint, is_new integer,
                       failures integer, runs integer, running integer, waiting integer, tail_id bigint, tail text,
                       last_started_at bigint, last_run_at bigint, last_status text, last_error text, quarantine text)
 WHERE schedule.id = given.id;

-- name: reschedule_simple
-- The same for a schedule after a simple success (store/row_mapping.py).
UPDATE schedule
   SET next_run_at = given.at, next_due_at = given.at, wake_at = given.at, next_source = given.source,
       next_origin = '', next_trace = given.trace, runs = given.runs, running = given.running, anchor_at = given.now,
       last_run_at = given.now, is_new = 0, failures = 0, last_status = 'succeeded', last_error = NULL,
       quarantine = NULL
  FROM :rows AS given (id bigint, at bigint, source text, trace text, runs integer, running integer, now bigint)
 WHERE schedule.id = given.id;

-- name: schedules_of
SELECT schedule.id, target_id, name, kind, plan_id, brief, origin, enabled
  FROM schedule WHERE removed_at IS NULL AND target_id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id;

-- name: add_schedules
-- A removed schedule of the same name returns with its history; `settled_until` keeps its past from firing again.
INSERT INTO schedule (target_id, name, kind, plan_id, brief, origin, enabled, next_run_at, next_due_at, next_source,
                      next_origin, next_trace, wake_at, created_at, anchor_at, settled_until)
SELECT target_id, name, kind, plan_id, brief, origin, enabled, next_run_at, next_due_at, next_source, next_origin,
       next_trace, wake_at, :now, :now, :now
  FROM :rows AS given (target_id bigint, name text, kind text, plan_id bigint, brief text, origin text,
                       enabled integer, next_run_at bigint, next_due_at bigint, next_source text, next_origin text,
                       next_trace text, wake_at bigint)
    ON CONFLICT (target_id, name) DO UPDATE
   SET kind = excluded.kind, plan_id = excluded.plan_id, brief = excluded.brief, origin = excluded.origin,
       enabled = excluded.enabled, next_run_at = excluded.next_run_at, next_due_at = excluded.next_due_at,
       next_source = excluded.next_source, next_origin = excluded.next_origin, next_trace = excluded.next_trace,
       wake_at = excluded.wake_at, anchor_at = :now, settled_until = :now, is_new = 1, failures = 0, runs = 0,
       arm = schedule.arm + 1, revision = schedule.revision + 1, quarantine = NULL, removed_at = NULL, skips = 0;

-- name: edit_schedules
UPDATE schedule
   SET kind = given.kind, plan_id = given.plan_id, brief = given.brief, origin = given.origin,
       enabled = given.enabled, next_run_at = given.next_run_at, next_due_at = given.next_due_at,
       next_source = given.next_source, next_origin = given.next_origin,
       next_trace = coalesce(given.next_trace, schedule.next_trace), wake_at = given.wake_at, settled_until = :now,
       revision = revision + 1, quarantine = NULL
  FROM :rows AS given (id bigint, target_id bigint, name text, kind text, plan_id bigint, brief text, origin text,
                       enabled integer, next_run_at bigint, next_due_at bigint, next_source text, next_origin text,
                       next_trace text, wake_at bigint)
 WHERE schedule.id = given.id;

-- name: move_schedules
UPDATE schedule SET origin = given.origin FROM :rows AS given (id bigint, origin text) WHERE schedule.id = given.id;

-- name: remove_schedules
UPDATE schedule SET removed_at = :now, next_run_at = NULL, next_due_at = NULL, wake_at = NULL, waiting = 0
  FROM :rows AS given (id bigint) WHERE schedule.id = given.id;

-- name: requeue_future_schedules
-- The clock moved back: marks and anchors that lie in the future are reset to now, and the schedules are decided again.
-- Beats that really started stay, and keep their instants. What has an open beat and no time waits for its completion.
UPDATE schedule SET anchor_at = least(anchor_at, :now), settled_until = least(settled_until, :now), next_run_at = NULL,
                    next_due_at = NULL, tail_id = NULL, tail = NULL,
                    wake_at = CASE WHEN wake_at IS NULL AND (running > 0 OR EXISTS (
                                            SELECT 1 FROM beat WHERE schedule_id = schedule.id AND outcome = 'pending'))
                                   THEN NULL ELSE :now::bigint END
 WHERE (anchor_at > :now OR settled_until > :now) AND removed_at IS NULL AND quarantine IS NULL;

-- name: suspect_schedules
-- Schedules whose counters disagree with their open runs and pending beats, and schedules that nothing will ever wake.
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

-- name: tallies
SELECT id,
       (SELECT count(*) FROM run WHERE status = 'running' AND schedule_id = schedule.id),
       (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id AND attempt = 1
           AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill')),
       (SELECT count(*) FROM beat WHERE outcome = 'pending' AND schedule_id = schedule.id
           AND source NOT IN ('manual', 'webhook', 'chat', 'rule-trigger', 'backfill'))
  FROM schedule WHERE id IN (SELECT id FROM :rows AS given (id bigint));

-- name: set_counters
UPDATE schedule SET running = given.running, waiting = given.waiting
  FROM :rows AS given (id bigint, running integer, waiting integer) WHERE schedule.id = given.id;

-- name: wake_schedules
UPDATE schedule SET wake_at = :now FROM :rows AS given (id bigint) WHERE schedule.id = given.id;

-- name: quarantined_schedules
SELECT target.name || '/' || schedule.name, schedule.quarantine
  FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE schedule.quarantine IS NOT NULL AND schedule.removed_at IS NULL;

-- name: schedule_ids
SELECT id FROM schedule WHERE id > :after AND removed_at IS NULL ORDER BY id LIMIT :limit;

-- name: settle_all_schedules
UPDATE schedule SET settled_until = greatest(settled_until, :now);

-- name: clear_tails
-- A deleted row cannot be extended: the next skip or miss begins a new one.
UPDATE schedule SET tail_id = NULL, tail = NULL
  FROM :rows AS given (id bigint) JOIN beat ON beat.id = given.id
 WHERE schedule.id = beat.schedule_id AND schedule.tail_id = beat.id;

-- name: consume_skips
UPDATE schedule SET skips = greatest(skips - given.used, 0)
  FROM :rows AS given (id bigint, used integer) WHERE schedule.id = given.id;

-- name: enabled_in_file
SELECT schedule.id, target.name, schedule.name, schedule.enabled, schedule.origin
  FROM :rows AS given (id bigint) JOIN schedule ON schedule.id = given.id JOIN target ON target.id = schedule.target_id
 WHERE schedule.removed_at IS NULL;

-- name: rearm_schedules
-- Let a finished one-shot fire once more, under a new dedup id.
UPDATE schedule SET arm = arm + 1, is_new = 1, tail_id = NULL, tail = NULL
  FROM :rows AS given (id bigint) WHERE schedule.id = given.id;

-- name: briefs_of
SELECT id, brief FROM schedule WHERE id = ANY(:ids);

-- name: matches_schedule_query
-- The state only preselects: every schedule in that state matches, and service/queries/schedule_state.py decides.
schedule.removed_at IS NULL
   AND (:names::text[] IS NULL OR target.name || '/' || schedule.name LIKE ANY(:names)
        OR schedule.plan_id = ANY(:plans))
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
         ELSE true END;
