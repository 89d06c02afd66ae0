-- Statements on hints that both dialects understand.

-- name: add_hint
INSERT INTO hint (schedule_id, origin, every, at, reason, expires_at, created_at)
VALUES (:id, :origin, :every, :at, :reason, :expires_at, :created_at);

-- name: end_hints
UPDATE hint SET ended_at = :now, ended_by = :by WHERE schedule_id = :id AND ended_at IS NULL;

-- name: ended_hints
SELECT count(*) FROM hint WHERE ended_at < :before;

-- name: drop_hints
DELETE FROM hint WHERE id IN (SELECT id FROM hint WHERE ended_at < :before LIMIT :limit);

-- name: recent_hints
SELECT count(*) FROM hint WHERE schedule_id = :id AND origin = :origin AND created_at > :since;

-- name: any_hint
SELECT EXISTS (SELECT 1 FROM hint WHERE ended_at IS NULL);
