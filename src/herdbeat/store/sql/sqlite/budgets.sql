-- Statements on budgets in SQLite's own words. Those of the other dialect have the same names.

-- name: budgets
-- Shared budgets of some targets; the fleet has the number 0.
SELECT json_group_array(json_array(scope, holder_id, text))
  FROM budget WHERE holder_id IN (SELECT value FROM json_each(:rows));

-- name: set_budgets
INSERT INTO budget (scope, holder_id, text)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows) WHERE true
    ON CONFLICT (scope, holder_id) DO UPDATE SET text = excluded.text;

-- name: drop_budgets
DELETE FROM budget WHERE (scope, holder_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows));

-- name: open_spend
-- Make sure that there is a row to count in.
INSERT OR IGNORE INTO spend (scope, holder_id, day)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:rows);

-- name: budget_usage
SELECT json_group_array(json_array(spend.scope, spend.holder_id, spend.day, spend.runs, spend.tokens, spend.usd))
  FROM json_each(:rows)
  JOIN spend ON spend.scope = value ->> 0 AND spend.holder_id = value ->> 1 AND spend.day = value ->> 2;

-- name: add_spend
INSERT INTO spend (scope, holder_id, day, runs, tokens, usd)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(:rows) WHERE true
    ON CONFLICT (scope, holder_id, day) DO UPDATE
   SET runs = max(runs + excluded.runs, 0), tokens = max(tokens + excluded.tokens, 0),
       usd = max(usd + excluded.usd, 0);

-- name: reserve
INSERT INTO reservation (run_id, scope, holder_id, day, tokens, usd)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(:rows);

-- name: reservations
SELECT json_group_array(json_array(run_id, scope, holder_id, day, tokens, usd))
  FROM reservation WHERE run_id IN (SELECT value FROM json_each(:rows));

-- name: drop_reservations
DELETE FROM reservation WHERE run_id IN (SELECT value FROM json_each(:rows));
