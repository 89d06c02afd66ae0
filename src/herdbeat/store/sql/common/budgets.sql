-- Statements on budgets that both dialects understand.

-- name: drop_spend
DELETE FROM spend WHERE day < :before;

-- name: spent_on
SELECT runs, tokens, usd FROM spend WHERE scope = :scope AND holder_id = :holder AND day = :day;

-- name: budgets_of_schedule
-- The shared budgets of a schedule: of its target, and of the fleet.
SELECT scope, holder_id, text FROM budget
 WHERE scope = 'fleet' OR holder_id = (SELECT target_id FROM schedule WHERE id = :schedule);
