-- Statements on hints that both dialects understand.

-- name: add_hint
INSERT INTO hint (schedule_id, origin, every, at, reason, expires_at, created_at)
VALUES (:id, :origin, :every, :at, :reason, :expires_at, :created_at);

-- name: end_given_hints
UPDATE hint SET ended_at = :now, ended_by = :by
 WHERE schedule_id = :id AND created_at = :changed_at AND origin = :by AND ended_at IS NULL;

-- name: revive_hints
-- One interval is kept per rank: where a newer one is in force, the old one stays ended. Ranks differ in their first letter.
UPDATE hint SET ended_at = NULL, ended_by = NULL
 WHERE schedule_id = :id AND ended_at = :changed_at AND ended_by IN ('replaced', :by)
   AND expires_at > :now AND (at IS NULL OR at > :now)
   AND (at IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM hint AS other
                        WHERE other.schedule_id = :id AND other.ended_at IS NULL AND other.every IS NOT NULL
                          AND other.expires_at > :now AND substr(other.origin, 1, 1) = substr(hint.origin, 1, 1)));

-- name: ended_hints
SELECT count(*) FROM hint WHERE ended_at < :before;

-- name: drop_hints
DELETE FROM hint WHERE id IN (SELECT id FROM hint WHERE ended_at < :before LIMIT :limit);

-- name: recent_hints
SELECT count(*) FROM hint WHERE schedule_id = :id AND origin = :origin AND created_at > :since;

-- name: any_hint
SELECT EXISTS (SELECT 1 FROM hint WHERE ended_at IS NULL);
