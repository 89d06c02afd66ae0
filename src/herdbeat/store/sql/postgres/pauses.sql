-- Statements on planned pauses in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: planned_pauses
SELECT {planned_pause_columns} FROM planned_pause
 WHERE ended_at IS NULL AND until > :now AND (:id = 0 OR id = :id);

-- name: pausable_schedules
SELECT schedule.id, target.name, schedule.name, schedule.plan_id
  FROM schedule JOIN target ON target.id = schedule.target_id WHERE schedule.removed_at IS NULL;

-- name: paused_schedules
SELECT schedule_id FROM paused_schedule WHERE pause_id = :id AND is_open = 1;

-- name: add_paused_schedules
INSERT INTO paused_schedule (schedule_id, pause_id, until)
SELECT schedule_id, pause_id, until FROM :rows AS given (schedule_id bigint, pause_id bigint, until bigint)
    ON CONFLICT DO NOTHING;

-- name: end_windows
-- A window that has not begun is taken back; one that has ends now.
UPDATE paused_schedule SET until = :now, is_open = CASE WHEN given.from_at > :now THEN 0 ELSE is_open END
  FROM :rows AS given (schedule_id bigint, pause_id bigint, from_at bigint)
 WHERE paused_schedule.schedule_id = given.schedule_id AND paused_schedule.pause_id = given.pause_id;

-- name: count_windows
UPDATE schedule SET planned = (SELECT count(*) FROM paused_schedule WHERE schedule_id = schedule.id AND is_open = 1)
 WHERE id IN (SELECT id FROM :rows AS given (id bigint));

-- name: wake_for_window
-- They are decided again then, as by every other change. What is in quarantine is not decided.
UPDATE schedule SET wake_at = least(coalesce(wake_at, :at), :at)
 WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND removed_at IS NULL AND quarantine IS NULL;

-- name: wake_paused_events
UPDATE beat SET wake_at = :now
 WHERE schedule_id IN (SELECT id FROM :rows AS given (id bigint)) AND outcome = 'pending' AND reason = 'paused';

-- name: schedule_windows
(SELECT coalesce(json_agg(json_build_array({window_columns})), '[]')::text FROM {open_windows}
          WHERE held.schedule_id = schedule.id AND held.is_open = 1);
