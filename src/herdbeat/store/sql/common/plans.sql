-- Statements on plans that both dialects understand.

-- name: plan_text
SELECT text FROM plan WHERE id = :id;
