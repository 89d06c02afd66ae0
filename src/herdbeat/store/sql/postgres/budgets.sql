-- Statements on budgets in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: budgets
-- Shared budgets of some targets; the fleet has the number 0.
SELECT scope, holder_id, text FROM budget WHERE holder_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: set_budgets
INSERT INTO budget (scope, holder_id, text)
SELECT scope, holder_id, text FROM :rows AS given (scope text, holder_id bigint, text text)
    ON CONFLICT (scope, holder_id) DO UPDATE SET text = excluded.text;

-- name: drop_budgets
DELETE FROM budget USING :rows AS given (scope text, holder_id bigint)
 WHERE budget.scope = given.scope AND budget.holder_id = given.holder_id;

-- name: open_spend
-- Make sure that there is a row to lock: other nodes wait until this transaction has counted. Always in the same order.
INSERT INTO spend (scope, holder_id, day)
SELECT scope, holder_id, day FROM :rows AS given (scope text, holder_id bigint, day text)
 ORDER BY scope, holder_id, day
    ON CONFLICT (scope, holder_id, day) DO NOTHING;

-- name: budget_usage
SELECT spend.scope, spend.holder_id, spend.day, spend.runs, spend.tokens, spend.usd
  FROM spend
 WHERE (scope, holder_id, day) IN (SELECT * FROM :rows AS given (scope text, holder_id bigint, day text))
 ORDER BY scope, holder_id, day FOR UPDATE;

-- name: add_spend
INSERT INTO spend (scope, holder_id, day, runs, tokens, usd)
SELECT scope, holder_id, day, sum(runs), sum(tokens), sum(usd)
  FROM :rows AS given (scope text, holder_id bigint, day text, runs bigint, tokens numeric, usd double precision)
 GROUP BY scope, holder_id, day ORDER BY scope, holder_id, day
    ON CONFLICT (scope, holder_id, day) DO UPDATE
   SET runs = greatest(spend.runs + excluded.runs, 0), tokens = greatest(spend.tokens + excluded.tokens, 0),
       usd = greatest(spend.usd + excluded.usd, 0);

-- name: reserve
INSERT INTO reservation (run_id, scope, holder_id, day, tokens, usd)
SELECT run_id, scope, holder_id, day, tokens, usd
  FROM :rows AS given (run_id bigint, scope text, holder_id bigint, day text, tokens numeric, usd double precision);

-- name: reservations
SELECT run_id, scope, holder_id, day, tokens, usd
  FROM reservation WHERE run_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: drop_reservations
DELETE FROM reservation WHERE run_id IN (SELECT id FROM :rows AS given (id bigint));
