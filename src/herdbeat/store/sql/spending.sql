-- Budgets: what a day has used, what is set aside for open runs, and what runs cost of late.

-- name: spent
SELECT json_group_array(json_array(spend.schedule_id, spend.runs, spend.tokens, spend.usd))
  FROM json_each(:rows) JOIN spend ON spend.schedule_id = value ->> 0 AND spend.day = value ->> 1;

-- name: last_usage
-- Of the newest runs that are over, however many of them said what they used: no more than so many are looked at.
SELECT json_group_array(json_array(wanted.value,
           (SELECT json_group_array(json(usage))
              FROM (SELECT usage FROM run WHERE run.schedule_id = wanted.value ORDER BY id DESC LIMIT :limit)
             WHERE usage IS NOT NULL)))
  FROM json_each(:rows) AS wanted;

-- name: add_spend
INSERT INTO spend (schedule_id, day, runs, tokens, usd)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:rows) WHERE true
    ON CONFLICT (schedule_id, day) DO UPDATE
   SET runs = max(runs + excluded.runs, 0), tokens = max(tokens + excluded.tokens, 0),
       usd = max(usd + excluded.usd, 0);

-- name: reserve
INSERT INTO reservation (run_id, schedule_id, day, tokens, usd)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(:rows);

-- name: reservations
SELECT json_group_array(json_array(run_id, schedule_id, day, tokens, usd))
  FROM reservation WHERE run_id IN (SELECT value FROM json_each(:rows));

-- name: drop_reservations
DELETE FROM reservation WHERE run_id IN (SELECT value FROM json_each(:rows));

-- name: drop_spend
DELETE FROM spend WHERE day < :before;
