-- Statements on planned pauses in SQLite's own words. Those of the other dialect have the same names.

-- name: planned_pauses
SELECT json_group_array(json_array({planned_pause_columns})) FROM planned_pause
 WHERE ended_at IS NULL AND until > :now AND (:id = 0 OR id = :id);

-- name: pausable_schedules
SELECT json_group_array(json_array(schedule.id, target.name, schedule.name, schedule.plan_id))
  FROM schedule JOIN target ON target.id = schedule.target_id WHERE schedule.removed_at IS NULL;

-- name: paused_schedules
SELECT json_group_array(schedule_id) FROM paused_schedule WHERE pause_id = :id AND is_open = 1;

-- name: add_paused_schedules
INSERT INTO paused_schedule (schedule_id, pause_id, until)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows) WHERE true ON CONFLICT DO NOTHING;

-- name: end_windows
-- A window that has not begun is taken back; one that has ends now.
UPDATE paused_schedule SET until = :now, is_open = CASE WHEN value ->> 2 > :now THEN 0 ELSE is_open END
  FROM json_each(:rows) WHERE schedule_id = value ->> 0 AND pause_id = value ->> 1;

-- name: count_windows
UPDATE schedule SET planned = (SELECT count(*) FROM paused_schedule WHERE schedule_id = schedule.id AND is_open = 1)
 WHERE id IN (SELECT value FROM json_each(:rows));

-- name: wake_for_window
-- They are decided again then, as by every other change. What is in quarantine is not decided.
UPDATE schedule SET wake_at = min(coalesce(wake_at, :at), :at)
 WHERE id IN (SELECT value FROM json_each(:rows)) AND removed_at IS NULL AND quarantine IS NULL;

-- name: wake_paused_events
UPDATE beat SET wake_at = :now
 WHERE schedule_id IN (SELECT value FROM json_each(:rows)) AND outcome = 'pending' AND reason = 'paused';

-- name: schedule_windows
(SELECT json_group_array(json_array({window_columns})) FROM {open_windows}
          WHERE held.schedule_id = schedule.id AND held.is_open = 1);
