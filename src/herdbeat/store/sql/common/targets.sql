-- Statements on targets that both dialects understand.

-- name: target_id
SELECT id, origin, running FROM target WHERE name = :name AND removed_at IS NULL;

-- name: target_page
SELECT target.name, target.kind, target.origin, target.max_concurrent, target.running,
       (SELECT count(*) FROM schedule WHERE schedule.target_id = target.id AND schedule.removed_at IS NULL) AS schedules
  FROM target
 WHERE target.removed_at IS NULL AND target.name > :first
 ORDER BY target.name
 LIMIT :limit;
