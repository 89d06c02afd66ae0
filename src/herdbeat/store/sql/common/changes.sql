-- Statements on changes that both dialects understand.

-- name: drop_changes
-- Delete changes that are too old, or beyond the newest `:most`. The newest stays: its id must not be given to another.
DELETE FROM change
 WHERE id IN (SELECT id FROM change
               WHERE (at < :before OR id <= (SELECT max(id) FROM change) - :most)
                 AND id <> (SELECT max(id) FROM change)
               ORDER BY id LIMIT :limit);

-- name: old_changes
SELECT count(*) FROM change
 WHERE (at < :before OR id <= (SELECT max(id) FROM change) - :most) AND id <> (SELECT max(id) FROM change);

-- name: list_changes
-- Newest first. A target's name also selects the changes of its schedules.
SELECT id, at, who, what, subject, before, after
  FROM change
 WHERE (:subject IS NULL OR subject = :subject OR (subject >= :subject || '/' AND subject < :subject || '0'))
   AND (:since IS NULL OR at >= :since)
   AND (:until IS NULL OR at <= :until)
   AND (:before IS NULL OR id < :before)
 ORDER BY id DESC
 LIMIT :limit;
