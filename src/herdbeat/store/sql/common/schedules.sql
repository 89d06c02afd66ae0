-- Statements on schedules that both dialects understand.

-- name: oldest_wake
SELECT min(wake_at) FROM schedule WHERE wake_at IS NOT NULL;

-- name: latest_settled_until
SELECT max(CASE WHEN anchor_at > settled_until THEN anchor_at ELSE settled_until END)
  FROM schedule WHERE removed_at IS NULL AND quarantine IS NULL;

-- name: rearm_withdrawn
-- A delay whose outcome is withdrawn (withdraw_beats) is still to fire.
UPDATE schedule SET is_new = 1
 WHERE kind = 'delay' AND removed_at IS NULL AND quarantine IS NULL
   AND EXISTS (SELECT 1 FROM beat
                WHERE beat.schedule_id = schedule.id AND beat.due_at > :now AND {never_started});

-- name: set_pause
UPDATE schedule SET paused = :paused, paused_until = :until, paused_by = :by, paused_reason = :reason WHERE id = :id;

-- name: set_disabled
UPDATE schedule SET disabled_by = :by WHERE id = :id;

-- name: count_hints
UPDATE schedule SET hinted = (SELECT count(*) FROM hint WHERE schedule_id = :id AND ended_at IS NULL) WHERE id = :id;

-- name: set_skips
UPDATE schedule SET skips = :skips, skips_by = :by, skips_reason = :reason WHERE id = :id;

-- name: reset_failures
UPDATE schedule SET failures = 0 WHERE id = :id;

-- name: schedule_columns
schedule.id, target.name AS target, schedule.name, plan.text AS plan, schedule.origin, schedule.enabled,
       schedule.disabled_by, schedule.quarantine, schedule.next_run_at, schedule.next_due_at, schedule.next_source,
       schedule.next_origin, schedule.next_trace, schedule.anchor_at, schedule.is_new, schedule.failures, schedule.running,
       schedule.waiting,
       CASE WHEN {is_in_window} THEN 1 ELSE schedule.paused END AS paused,
       CASE WHEN {is_in_window} THEN schedule.next_run_at ELSE schedule.paused_until END AS paused_until,
       CASE WHEN {is_in_window} THEN coalesce((SELECT planned_pause.by FROM {current_window}), '')
            ELSE schedule.paused_by END AS paused_by,
       CASE WHEN {is_in_window} THEN coalesce((SELECT planned_pause.reason FROM {current_window}), '')
            ELSE schedule.paused_reason END AS paused_reason,
       schedule.last_started_at, schedule.last_run_at, schedule.last_status, schedule.last_error, target.max_concurrent AS target_room,
       target.running AS target_running, schedule.skips, schedule.skips_by, schedule.skips_reason, schedule.runs,
       (SELECT beat.wake_at FROM beat WHERE {next_retry}) AS retry_at,
       (SELECT beat.attempt FROM beat WHERE {next_retry}) AS retry_attempt,
       CASE WHEN schedule.planned > 0 THEN {schedule_windows} END AS windows;

-- name: is_in_window
-- A planned pause holds it now: its decision says `paused` until an end that is not that of its own pause.
(schedule.planned > 0 AND schedule.next_source = 'paused' AND schedule.next_run_at IS NOT NULL
        AND (schedule.paused = 0 OR schedule.paused_until <> schedule.next_run_at));

-- name: current_window
{open_windows} WHERE held.schedule_id = schedule.id AND held.until = schedule.next_run_at LIMIT 1;

-- name: has_retry
EXISTS (SELECT 1 FROM beat WHERE beat.schedule_id = schedule.id AND beat.outcome = 'pending' AND beat.attempt > 1);

-- name: next_retry
-- A beat that has run and waits for its next attempt. Several may wait, for example after a backfill: the first counts.
beat.schedule_id = schedule.id AND beat.outcome = 'pending' AND beat.attempt > 1
       ORDER BY coalesce(beat.wake_at, 0), beat.id LIMIT 1;

-- name: list_schedules
SELECT {schedule_columns}
  FROM schedule
  JOIN target ON target.id = schedule.target_id
  JOIN plan ON plan.id = schedule.plan_id
 WHERE schedule.removed_at IS NULL
   AND (:name IS NULL OR schedule.name = :name)
   AND (:after IS NULL OR schedule.id > :after)
 ORDER BY schedule.id
 LIMIT :limit;

-- name: similar_names
-- Names to compare with a mistyped one: all of a small fleet; comparing all of a large one would take seconds.
SELECT target.name, schedule.name FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE schedule.removed_at IS NULL
   AND (:limit >= (SELECT count(*) FROM schedule)
        OR substr(target.name, 1, 2) = substr(:word, 1, 2) OR substr(schedule.name, -3) = substr(:word, -3)
        OR (substr(target.name, 1, 1) = substr(:word, 1, 1)
            AND length(target.name || schedule.name) BETWEEN length(:word) - 3 AND length(:word) + 10))
 LIMIT :limit;

-- name: is_unable
-- Its last run could not start: what the configuration names is not there, or its work source failed.
(schedule.last_status = 'skipped' AND schedule.last_error IS NOT NULL);

-- name: failing_ids
-- Too many rather than too few: service/queries/schedule_state.py decides.
SELECT id FROM schedule
 WHERE (failures > 0 OR quarantine IS NOT NULL OR {is_unable}
        OR id IN (SELECT schedule_id FROM beat WHERE outcome = 'pending' AND attempt > 1))
   AND removed_at IS NULL
 ORDER BY id LIMIT :limit;

-- name: held_ids
SELECT id FROM schedule WHERE (paused = 1 OR disabled_by IS NOT NULL OR {is_in_window}) AND removed_at IS NULL ORDER BY id LIMIT :limit;

-- name: overdue_ids
SELECT id FROM schedule
 WHERE wake_at <= :now AND next_run_at <= :now AND next_source <> 'paused' ORDER BY wake_at LIMIT :limit;

-- name: upcoming_schedule_ids
-- The end of a pause is not a run.
SELECT id FROM schedule
 WHERE wake_at IS NOT NULL AND next_run_at > :now AND next_source <> 'paused' ORDER BY wake_at LIMIT :limit;

-- name: number_of_schedules
SELECT count(*) FROM schedule WHERE removed_at IS NULL;

-- name: schedules_named
-- Removed schedules too: their history stays.
SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE target.name = :target AND (:name IS NULL OR schedule.name = :name)
 LIMIT :limit;

-- name: present_named
-- As `schedules_named`, without removed ones, by the indexes of both names.
SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE target.name = :target AND (:name IS NULL OR schedule.name = :name) AND schedule.removed_at IS NULL
   AND (:after IS NULL OR schedule.id > :after)
 ORDER BY schedule.id LIMIT :limit;

-- name: matching_schedule_ids
SELECT schedule.id FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE {matches_schedule_query} AND (:after IS NULL OR schedule.id > :after)
 ORDER BY schedule.id LIMIT :limit;

-- name: outlines
-- The columns of domain/records.py `ScheduleOutline`, with the plan's id in the place of the plan.
SELECT schedule.id, target.name, schedule.name, schedule.plan_id, schedule.enabled, schedule.disabled_by, schedule.quarantine,
       schedule.next_run_at, schedule.failures, schedule.running, schedule.waiting,
       CASE WHEN {is_in_window} THEN 1 ELSE schedule.paused END,
       CASE WHEN {is_in_window} THEN schedule.next_run_at ELSE schedule.paused_until END,
       schedule.last_started_at, schedule.last_run_at, schedule.last_status, {is_unable}
  FROM schedule JOIN target ON target.id = schedule.target_id
 WHERE {matches_schedule_query}
 ORDER BY schedule.id;

-- name: next_retries
-- Beats that have run and wait for their next attempt, by schedule, the first attempt last. See `next_retry`.
SELECT schedule_id, wake_at, attempt FROM beat
 WHERE outcome = 'pending' AND attempt > 1
 ORDER BY schedule_id, coalesce(wake_at, 0) DESC, id DESC;

-- name: oldest_overdue
SELECT min(wake_at) FROM schedule WHERE wake_at <= :now;

-- name: active_ids
-- Schedules that changed since a moment: every settled beat moves the anchor, and every start sets `last_started_at`.
SELECT id FROM schedule
 WHERE removed_at IS NULL AND (anchor_at >= :since OR last_started_at >= :since OR running > 0 OR waiting > 0)
 ORDER BY id LIMIT :limit;

-- name: schedules_of_ids
SELECT {schedule_columns}
  FROM schedule
  JOIN target ON target.id = schedule.target_id
  JOIN plan ON plan.id = schedule.plan_id
 WHERE schedule.id {in_ids}
 ORDER BY schedule.id;

-- name: overdue_since
SELECT wake_at FROM schedule WHERE wake_at <= :now ORDER BY wake_at LIMIT 1;

-- name: latest_ids
-- Schedules that started something since a moment or are busy now, the latest first.
SELECT id FROM schedule
 WHERE removed_at IS NULL AND (last_started_at >= :since OR running > 0 OR waiting > 0)
 ORDER BY last_started_at DESC, id LIMIT :limit;

-- name: stuck_ids
-- Schedules whose newest instants were all skipped for a reason that does not pass by itself, and the last instant.
SELECT schedule.id, schedule.tail, beat.last_due_at
  FROM schedule JOIN beat ON beat.id = schedule.tail_id
 WHERE schedule.removed_at IS NULL AND schedule.tail IN ('skipped:budget_exceeded', 'skipped:target_offline')
 ORDER BY schedule.id LIMIT :limit;

-- name: has_startable_schedule
-- Whether anything would start when it is due: not everything is paused or switched off.
SELECT EXISTS (SELECT 1 FROM schedule
                WHERE removed_at IS NULL AND enabled = 1 AND disabled_by IS NULL
                  AND NOT (paused = 1 AND (paused_until IS NULL OR paused_until > :now)));
