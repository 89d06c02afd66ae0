-- Statements on planned pauses that both dialects understand.

-- name: window_columns
planned_pause.id, planned_pause.from_at, held.until, planned_pause.by, planned_pause.reason;

-- name: open_windows
paused_schedule AS held JOIN planned_pause ON planned_pause.id = held.pause_id;

-- name: add_planned_pause
INSERT INTO planned_pause (selection, from_at, until, by, reason, created_at)
VALUES (:selection, :from_at, :until, :by, :reason, :now);

-- name: newest_planned_pause
SELECT max(id) FROM planned_pause;

-- name: end_planned_pause
UPDATE planned_pause SET ended_at = :now, ended_by = :by WHERE id = :id;

-- name: planned_pause_columns
planned_pause.id, planned_pause.selection, planned_pause.from_at, planned_pause.until, planned_pause.by,
       planned_pause.reason, planned_pause.created_at, planned_pause.ended_at, planned_pause.ended_by,
       (SELECT count(*) FROM paused_schedule WHERE pause_id = planned_pause.id);

-- name: list_planned_pauses
-- The coming and current ones first, by their beginning; then those that are over, the newest first.
SELECT {planned_pause_columns} FROM planned_pause
 WHERE (:all = 1 OR (ended_at IS NULL AND until > :now)) AND (:id = 0 OR id = :id)
 ORDER BY CASE WHEN ended_at IS NULL AND until > :now THEN 0 ELSE 1 END,
          CASE WHEN ended_at IS NULL AND until > :now THEN from_at ELSE -until END, id
 LIMIT :limit;

-- name: windows_of_schedules
SELECT held.schedule_id, {window_columns} FROM {open_windows} WHERE held.is_open = 1 AND held.until > :now
 ORDER BY held.schedule_id, planned_pause.from_at;

-- name: drop_planned_pauses
DELETE FROM planned_pause
 WHERE id IN (SELECT id FROM planned_pause
               WHERE (until < :before OR ended_at < :before)
                 AND NOT EXISTS (SELECT 1 FROM paused_schedule WHERE pause_id = planned_pause.id AND is_open = 1)
               LIMIT :limit);

-- name: drop_paused_schedules
DELETE FROM paused_schedule WHERE NOT EXISTS (SELECT 1 FROM planned_pause WHERE planned_pause.id = paused_schedule.pause_id);

-- name: close_windows
-- Windows whose schedules were evaluated after them: no instant of theirs is open any more.
UPDATE paused_schedule SET is_open = 0
 WHERE is_open = 1 AND until < :before
   AND EXISTS (SELECT 1 FROM schedule
                WHERE schedule.id = paused_schedule.schedule_id AND schedule.settled_until >= paused_schedule.until
                  AND (schedule.wake_at IS NULL OR schedule.wake_at > :now));

-- name: count_closed_windows
UPDATE schedule SET planned = (SELECT count(*) FROM paused_schedule WHERE schedule_id = schedule.id AND is_open = 1)
 WHERE planned > 0;
