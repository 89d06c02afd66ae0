-- Statements on plans that both dialects understand.

-- name: plan_text
SELECT text FROM plan WHERE id = :id;

-- name: plan_texts
SELECT id, text FROM plan WHERE id {in_ids};
