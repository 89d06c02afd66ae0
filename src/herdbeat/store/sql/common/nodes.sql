-- Statements on nodes that both dialects understand.

-- name: add_gap
INSERT INTO gap (from_at, until, reason) VALUES (:from_at, :until, :reason);

-- name: list_gaps
SELECT from_at, until, reason FROM gap WHERE until >= :since ORDER BY from_at;
