-- Statements on targets that both dialects understand.

-- name: target_id
SELECT id, origin, running FROM target WHERE name = :name AND removed_at IS NULL;
