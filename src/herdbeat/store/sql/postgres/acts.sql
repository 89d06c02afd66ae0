-- What people and machines ask for and change, the record of it, and what it costs: requests.sql, changes.sql and
-- spending.sql for PostgreSQL.

-- name: use_skips
UPDATE schedule SET skips = greatest(skips - given.used, 0)
  FROM :rows AS given (id bigint, used integer) WHERE schedule.id = given.id;

-- name: waiting_of
SELECT id, schedule_id, target_id, dedup_id, due_at, reason, source, origin, attempt, retried_by FROM beat
 WHERE outcome = 'pending' AND schedule_id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id;

-- name: mark_retries
UPDATE run SET source = 'retry', origin = given.origin
  FROM :rows AS given (id bigint, origin text) WHERE run.id = given.id;

-- name: last_backfill
SELECT coalesce(max(split_part(dedup_id, '#', 2)::bigint), 0)
  FROM beat WHERE schedule_id = :id AND dedup_id >= 'backfill:' AND dedup_id < 'backfill;' AND dedup_id LIKE '%#%';

-- name: add_changes
INSERT INTO change (at, who, what, subject, before, after)
SELECT at, who, what, subject, before, after
  FROM :rows AS given (at bigint, who text, what text, subject text, before text, after text);

-- name: switches
SELECT schedule.id, target.name, schedule.name, schedule.enabled, schedule.origin
  FROM :rows AS given (id bigint) JOIN schedule ON schedule.id = given.id JOIN target ON target.id = schedule.target_id
 WHERE schedule.removed_at IS NULL;

-- name: arm_again
-- A one-shot that is done may fire once more, under a new dedup id.
UPDATE schedule SET arm = arm + 1, is_new = 1, tail_id = NULL, tail = NULL
  FROM :rows AS given (id bigint) WHERE schedule.id = given.id;

-- name: extend_hint
-- The wish that stands already, from the same author: only its end moves.
UPDATE hint SET expires_at = :expires_at
 WHERE schedule_id = :id AND ended_at IS NULL AND expires_at > :now AND origin = :origin AND reason = :reason
   AND every IS NOT DISTINCT FROM :every AND at IS NOT DISTINCT FROM :at;

-- name: end_hints_of
UPDATE hint SET ended_at = :now, ended_by = CASE WHEN expires_at <= :now THEN 'expired' ELSE :by END
 WHERE schedule_id = :id AND ended_at IS NULL
   AND (expires_at <= :now
        OR EXISTS (SELECT 1 FROM :rows AS given (rank text)
                    WHERE origin = given.rank OR starts_with(origin, given.rank || ':')));

-- name: end_surplus_one_shots
-- The earliest of a rank are kept.
UPDATE hint SET ended_at = :now, ended_by = 'surplus'
 WHERE id IN (SELECT id FROM hint
               WHERE schedule_id = :id AND ended_at IS NULL AND at IS NOT NULL
                 AND (origin = :rank OR starts_with(origin, :rank || ':'))
               ORDER BY at, id OFFSET :most);

-- name: forget_ended_hints
DELETE FROM hint
 WHERE id IN (SELECT id FROM hint WHERE schedule_id = :id AND ended_at IS NOT NULL ORDER BY id DESC OFFSET :most);

-- name: budgets
-- Those that are shared, of some targets; the fleet is asked for by its number, 0.
SELECT scope, holder_id, text FROM budget WHERE holder_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: set_budgets
INSERT INTO budget (scope, holder_id, text)
SELECT scope, holder_id, text FROM :rows AS given (scope text, holder_id bigint, text text)
    ON CONFLICT (scope, holder_id) DO UPDATE SET text = excluded.text;

-- name: drop_budgets
DELETE FROM budget USING :rows AS given (scope text, holder_id bigint)
 WHERE budget.scope = given.scope AND budget.holder_id = given.holder_id;

-- name: open_spend
-- So that there is a row to hold on to: whoever shares it waits until we have counted. Always in the same order.
INSERT INTO spend (scope, holder_id, day)
SELECT scope, holder_id, day FROM :rows AS given (scope text, holder_id bigint, day text)
 ORDER BY scope, holder_id, day
    ON CONFLICT (scope, holder_id, day) DO NOTHING;

-- name: spent
SELECT spend.scope, spend.holder_id, spend.day, spend.runs, spend.tokens, spend.usd
  FROM spend
 WHERE (scope, holder_id, day) IN (SELECT * FROM :rows AS given (scope text, holder_id bigint, day text))
 ORDER BY scope, holder_id, day FOR UPDATE;

-- name: last_usage
-- Of the newest runs, however many of them said what they used: no more than so many are looked at.
SELECT given.id,
       (SELECT coalesce(json_agg(usage::json), '[]')
          FROM (SELECT usage FROM run WHERE run.schedule_id = given.id ORDER BY id DESC LIMIT :limit) AS newest
         WHERE usage IS NOT NULL)
  FROM :rows AS given (id bigint);

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

-- name: leave_word
-- A part of the next two: for the nodes that have the runs that are meant. Said a second time, it is forced if either was.
asked AS (
     INSERT INTO stop_request (run_id, node_id, why, force)
     SELECT id, node_id, :why, :force::integer FROM meant
         ON CONFLICT (run_id) DO UPDATE SET force = greatest(stop_request.force, excluded.force))
SELECT schedule_id, id FROM meant ORDER BY id;

-- name: ask_to_stop_runs_of
WITH meant AS (
     SELECT run.id, run.node_id, run.schedule_id FROM run
      WHERE run.status = 'running' AND run.node_id <> :node
        AND run.schedule_id IN (SELECT id FROM :rows AS given (id bigint))),
     {leave_word};

-- name: ask_to_stop_runs
WITH meant AS (
     SELECT run.id, run.node_id, run.schedule_id FROM run
      WHERE run.status = 'running' AND run.node_id <> :node
        AND run.id IN (SELECT id FROM :rows AS given (id bigint))),
     {leave_word};

-- name: asked_to_stop
SELECT run_id, why, force FROM stop_request WHERE node_id = :node;

-- name: forget_stops
-- Those that were taken up, and those that came too late.
DELETE FROM stop_request
 WHERE node_id = :node
   AND (run_id = ANY(:taken::bigint[])
        OR NOT EXISTS (SELECT 1 FROM run WHERE run.id = run_id AND run.status = 'running'));

-- name: tell_outputs
-- While they run, or were ended from outside: whoever ends by itself brings its output along, which is the last word. So
-- a run that is just being finished is passed by. A node that was given up tells nothing more.
WITH given AS (SELECT * FROM unnest(:runs::bigint[], :texts::text[]) AS given (run_id, text)),
     ours AS MATERIALIZED (
     SELECT run.id FROM run JOIN node ON node.id = run.node_id
      WHERE run.id IN (SELECT run_id FROM given) AND run.status IN ('running', 'cancelled', 'interrupted')
        AND node.stopped_at IS NULL AND node.lease_until > (SELECT herdbeat_now())
        FOR SHARE OF run SKIP LOCKED)
INSERT INTO run_log (run_id, text) SELECT run_id, text FROM given JOIN ours ON ours.id = given.run_id
    ON CONFLICT (run_id) DO UPDATE SET text = excluded.text;
