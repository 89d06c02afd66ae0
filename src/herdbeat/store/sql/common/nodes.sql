-- Statements on nodes that both dialects understand.

-- name: add_gap
INSERT INTO gap (from_at, until, reason) VALUES (:from_at, :until, :reason);

-- name: cut_gaps
UPDATE gap SET until = :now WHERE until > :now AND from_at < :now;

-- name: drop_future_gaps
DELETE FROM gap WHERE from_at >= :now;

-- name: list_gaps
SELECT from_at, until, reason FROM gap WHERE until >= :since ORDER BY from_at;
