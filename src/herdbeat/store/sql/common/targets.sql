-- Statements on targets that both dialects understand.

-- name: target_id
SELECT id, origin, running FROM target WHERE name = :name AND removed_at IS NULL;

-- name: target_page
SELECT target.name, target.kind, target.origin, target.max_concurrent, target.running,
       (SELECT count(*) FROM schedule WHERE schedule.target_id = target.id AND schedule.removed_at IS NULL) AS schedules
  FROM target
 WHERE target.removed_at IS NULL AND target.name > :first AND (:only = '' OR target.name = :only)
 ORDER BY target.name
 LIMIT :limit;

-- name: has_isolation
-- Specs are compact JSON. A text in one that has these characters has its quotes escaped.
SELECT EXISTS (SELECT 1 FROM target
                WHERE target.removed_at IS NULL AND target.kind = 'agent'
                  AND (target.spec LIKE :pattern
                       OR EXISTS (SELECT 1 FROM schedule
                                   WHERE schedule.target_id = target.id AND schedule.removed_at IS NULL
                                     AND schedule.brief LIKE :pattern)));
