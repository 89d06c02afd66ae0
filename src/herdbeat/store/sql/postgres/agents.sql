-- Statements on agents in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: account_of
coalesce(schedule.brief::json ->> 'account', target.spec::json ->> 'account', target_account.account, '');

-- name: model_of
coalesce(schedule.brief::json ->> 'model', target.spec::json ->> 'model', '');

-- name: accounts_of
SELECT schedule.id, {account_of}, {model_of}
  FROM schedule JOIN target ON target.id = schedule.target_id
  LEFT JOIN target_account ON target_account.target_id = target.id
 WHERE target.kind = 'agent' AND schedule.id IN (SELECT id FROM :rows AS given (id bigint));

-- name: agents_without_account
SELECT target.id, target.spec
  FROM target LEFT JOIN target_account ON target_account.target_id = target.id
 WHERE target.kind = 'agent' AND target.removed_at IS NULL AND target_account.account IS NULL
   AND target.spec::json ->> 'account' IS NULL;

-- name: set_accounts
INSERT INTO target_account (target_id, account)
SELECT target_id, account FROM :rows AS given (target_id bigint, account text) ORDER BY target_id
    ON CONFLICT (target_id) DO UPDATE SET account = excluded.account
 WHERE target_account.account <> excluded.account;

-- name: open_holds
SELECT {hold_columns} FROM account_hold WHERE released_at IS NULL ORDER BY id;

-- name: end_holds
-- Another node may be at it, or a person may be releasing it: a claim waits for neither.
UPDATE account_hold SET released_at = :now
 WHERE id IN (SELECT account_hold.id FROM account_hold JOIN :rows AS given (id bigint) ON account_hold.id = given.id
               WHERE released_at IS NULL FOR UPDATE OF account_hold SKIP LOCKED);

-- name: end_streaks
-- A success after a hold began ends the doubling of the next ones.
UPDATE account_hold SET streak = 0
  FROM :rows AS given (account text, started_at bigint)
 WHERE account_hold.account = given.account AND account_hold.began_at <= given.started_at AND account_hold.streak > 0;

-- name: move_holds_back
-- The clock moved back. A stated end is a time of the world, which has not moved.
UPDATE account_hold SET began_at = least(began_at, :now::bigint),
                        until = CASE WHEN stated = 1 THEN until ELSE greatest(:now::bigint, until - :step::bigint) END
 WHERE released_at IS NULL;

-- name: lock_account_holds
-- Two nodes that are refused at once make one hold: the second sees that of the first.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: hold'));

-- name: count_limited
UPDATE beat SET limited = limited + 1 FROM :rows AS given (id bigint) WHERE beat.id = given.id;

-- name: add_agent_runs
INSERT INTO agent_run (run_id, error_code, account, model, answer, quiet, empty_answer, turns, steps, steps_left_out,
                       prompt, branch)
SELECT * FROM :rows AS given (run_id bigint, error_code text, account text, model text, answer text, quiet integer,
                              empty_answer integer, turns integer, steps text, steps_left_out integer, prompt text,
                              branch text)
    ON CONFLICT (run_id) DO NOTHING;

-- name: add_costs
INSERT INTO run_cost (run_id, schedule_id, target_id, day, source, usd, input_tokens, cache_read_tokens,
                      cache_write_tokens, output_tokens, notional)
SELECT * FROM :rows AS given (run_id bigint, schedule_id bigint, target_id bigint, day text, source text,
                              usd double precision, input_tokens bigint, cache_read_tokens bigint,
                              cache_write_tokens bigint, output_tokens bigint, notional integer)
    ON CONFLICT (run_id) DO NOTHING;

-- name: session_totals
SELECT session.runtime, session.session_id, usd, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens
  FROM session JOIN :rows AS given (runtime text, session_id text)
    ON session.runtime = given.runtime AND session.session_id = given.session_id
 ORDER BY session.runtime, session.session_id FOR UPDATE OF session;

-- name: keep_sessions
INSERT INTO session (runtime, session_id, schedule_id, host, created_at, last_used_at, runs, usd, input_tokens,
                     cache_read_tokens, cache_write_tokens, output_tokens)
SELECT runtime, given.session_id, schedule_id,
       coalesce((SELECT node.host FROM run JOIN node ON node.id = run.node_id WHERE run.id = given.run_id), ''),
       :now::bigint, :now::bigint, 1, usd, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens
  FROM :rows AS given (runtime text, session_id text, schedule_id bigint, run_id bigint, usd double precision,
                       input_tokens bigint, cache_read_tokens bigint, cache_write_tokens bigint, output_tokens bigint)
 ORDER BY runtime, given.session_id
    ON CONFLICT (runtime, session_id) DO UPDATE
   SET schedule_id = excluded.schedule_id, host = excluded.host, last_used_at = excluded.last_used_at,
       runs = session.runs + 1, run_id = NULL, usd = excluded.usd, input_tokens = excluded.input_tokens,
       cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
       output_tokens = excluded.output_tokens;

-- name: newest_session
-- The last that the schedule has used on this host. One that another run is using, or is just taking, is nobody else's.
SELECT session.session_id FROM session
 WHERE session.schedule_id = :schedule AND session.runtime = :runtime AND session.host = :host
   AND session.last_used_at >= :since AND (:thread = '' OR {is_of_thread})
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = session.run_id AND run.status = 'running')
 ORDER BY session.last_used_at DESC LIMIT 1 FOR UPDATE OF session SKIP LOCKED;

-- name: take_session
UPDATE session SET run_id = :run::bigint WHERE runtime = :runtime AND session_id = :session;

-- name: add_attention
INSERT INTO attention (run_id, schedule_id, what, at)
SELECT run_id, schedule_id, what, :now::bigint
  FROM :rows AS given (run_id bigint, schedule_id bigint, what text)
    ON CONFLICT (run_id) DO NOTHING;

-- name: clear_attention
-- A success without a mark clears older ones: of its event, its work item or its conversation (what its dedup id has up
-- to the last colon), or all those that had ended when it started.
UPDATE attention SET acked_by = 'run:' || cleared.run_id, acked_at = :now::bigint
  FROM :rows AS cleared (run_id bigint, schedule_id bigint, started_at bigint, scope integer)
 WHERE attention.schedule_id = cleared.schedule_id AND attention.acked_at IS NULL AND attention.run_id <> cleared.run_id
   AND CASE cleared.scope
            WHEN 1 THEN (SELECT beat_id FROM run WHERE run.id = attention.run_id)
                      = (SELECT beat_id FROM run WHERE run.id = cleared.run_id)
            WHEN 2 THEN EXISTS (SELECT 1 FROM work_claim AS marked JOIN work_claim AS done
                                   ON done.source = marked.source AND done.item = marked.item
                                 WHERE marked.run_id = attention.run_id AND done.run_id = cleared.run_id
                                   AND marked.state NOT IN ('lost', 'blocked') AND done.state NOT IN ('lost', 'blocked'))
            WHEN 3 THEN (SELECT regexp_replace(beat.dedup_id, '[^:]*$', '')
                            FROM run JOIN beat ON beat.id = run.beat_id WHERE run.id = attention.run_id)
                      = (SELECT regexp_replace(beat.dedup_id, '[^:]*$', '')
                            FROM run JOIN beat ON beat.id = run.beat_id WHERE run.id = cleared.run_id)
            ELSE attention.at <= cleared.started_at END;

-- name: unacked_runs
SELECT attention.run_id, target.name, schedule.name
  FROM attention JOIN schedule ON schedule.id = attention.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE attention.acked_at IS NULL AND attention.run_id IN (SELECT id FROM :rows AS given (id bigint))
 ORDER BY attention.run_id FOR UPDATE OF attention;

-- name: ack_runs
UPDATE attention SET acked_by = :by, acked_at = :now::bigint
  FROM :rows AS given (id bigint) WHERE attention.run_id = given.id AND acked_at IS NULL;

-- name: drop_agent_runs
DELETE FROM agent_run WHERE run_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: drop_costs
DELETE FROM run_cost WHERE run_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: drop_attention
DELETE FROM attention WHERE run_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: set_not_before
UPDATE schedule SET not_before = given.not_before
  FROM :rows AS given (id bigint, not_before bigint) WHERE schedule.id = given.id;
