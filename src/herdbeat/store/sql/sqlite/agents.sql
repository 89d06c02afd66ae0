-- Statements on agents in SQLite's own words. Those of the other dialect have the same names.

-- name: account_of
coalesce(schedule.brief ->> 'account', target.spec ->> 'account', target_account.account, '');

-- name: model_of
coalesce(schedule.brief ->> 'model', target.spec ->> 'model', '');

-- name: accounts_of
SELECT json_group_array(json_array(schedule.id, {account_of}, {model_of}))
  FROM schedule JOIN target ON target.id = schedule.target_id
  LEFT JOIN target_account ON target_account.target_id = target.id
 WHERE target.kind = 'agent' AND schedule.id IN (SELECT value FROM json_each(:rows));

-- name: agents_without_account
SELECT json_group_array(json_array(target.id, target.spec))
  FROM target LEFT JOIN target_account ON target_account.target_id = target.id
 WHERE target.kind = 'agent' AND target.removed_at IS NULL AND target_account.account IS NULL
   AND target.spec ->> 'account' IS NULL;

-- name: set_accounts
INSERT INTO target_account (target_id, account) SELECT value ->> 0, value ->> 1 FROM json_each(:rows) WHERE true
    ON CONFLICT (target_id) DO UPDATE SET account = excluded.account WHERE account <> excluded.account;

-- name: open_holds
SELECT json_group_array(json_array({hold_columns}))
  FROM (SELECT * FROM account_hold WHERE released_at IS NULL ORDER BY id);

-- name: end_holds
-- One process owns the file, so nobody else ends them.
UPDATE account_hold SET released_at = :now
  FROM json_each(:rows) WHERE account_hold.id = value AND released_at IS NULL;

-- name: end_streaks
-- A success after a hold began ends the doubling of the next ones.
UPDATE account_hold SET streak = 0
  FROM json_each(:rows)
 WHERE account_hold.account = value ->> 0 AND account_hold.began_at <= value ->> 1 AND account_hold.streak > 0;

-- name: move_holds_back
-- The clock moved back. A stated end is a time of the world, which has not moved.
UPDATE account_hold SET began_at = min(began_at, :now),
                        until = CASE WHEN stated THEN until ELSE max(:now, until - :step) END
 WHERE released_at IS NULL;

-- name: lock_account_holds
SELECT '[]';

-- name: count_limited
UPDATE beat SET limited = limited + 1 FROM json_each(:rows) WHERE beat.id = value;

-- name: add_agent_runs
INSERT OR REPLACE INTO agent_run (run_id, error_code, account, model, answer, quiet, empty_answer, turns, steps,
                                  steps_left_out, prompt, branch)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11
  FROM json_each(:rows);

-- name: add_costs
INSERT OR REPLACE INTO run_cost (run_id, schedule_id, target_id, day, source, usd, input_tokens, cache_read_tokens,
                                 cache_write_tokens, output_tokens, notional)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10
  FROM json_each(:rows);

-- name: session_totals
SELECT json_group_array(json_array(runtime, session_id, usd, input_tokens, cache_read_tokens, cache_write_tokens,
                                   output_tokens))
  FROM json_each(:rows) JOIN session ON runtime = value ->> 0 AND session_id = value ->> 1;

-- name: keep_sessions
INSERT INTO session (runtime, session_id, schedule_id, host, created_at, last_used_at, runs, usd, input_tokens,
                     cache_read_tokens, cache_write_tokens, output_tokens)
SELECT value ->> 0, value ->> 1, value ->> 2,
       coalesce((SELECT node.host FROM run JOIN node ON node.id = run.node_id WHERE run.id = value ->> 3), ''),
       :now, :now, 1, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8
  FROM json_each(:rows) WHERE true
    ON CONFLICT (runtime, session_id) DO UPDATE
   SET schedule_id = excluded.schedule_id, host = excluded.host, last_used_at = excluded.last_used_at,
       runs = session.runs + 1, run_id = NULL, usd = excluded.usd, input_tokens = excluded.input_tokens,
       cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
       output_tokens = excluded.output_tokens;

-- name: newest_session
-- The last that the schedule has used on this host. One that another run is using is nobody else's.
SELECT session.session_id FROM session
 WHERE session.schedule_id = :schedule AND session.runtime = :runtime AND session.host = :host
   AND session.last_used_at >= :since AND (:thread = '' OR {is_of_thread})
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = session.run_id AND run.status = 'running')
 ORDER BY session.last_used_at DESC LIMIT 1;

-- name: take_session
UPDATE session SET run_id = :run WHERE runtime = :runtime AND session_id = :session;

-- name: add_attention
INSERT OR REPLACE INTO attention (run_id, schedule_id, what, at)
SELECT value ->> 0, value ->> 1, value ->> 2, :now FROM json_each(:rows);

-- name: clear_attention
-- A success without a mark clears older ones: of its event, its work item or its conversation (what its dedup id has up
-- to the last colon), or all those that had ended when it started.
UPDATE attention SET acked_by = 'run:' || cleared.run_id, acked_at = :now
  FROM (SELECT value ->> 0 AS run_id, value ->> 1 AS schedule_id, value ->> 2 AS started_at, value ->> 3 AS scope
          FROM json_each(:rows)) AS cleared
 WHERE attention.schedule_id = cleared.schedule_id AND attention.acked_at IS NULL AND attention.run_id <> cleared.run_id
   AND CASE cleared.scope
            WHEN 1 THEN (SELECT beat_id FROM run WHERE run.id = attention.run_id)
                      = (SELECT beat_id FROM run WHERE run.id = cleared.run_id)
            WHEN 2 THEN EXISTS (SELECT 1 FROM work_claim AS marked JOIN work_claim AS done
                                   ON done.source = marked.source AND done.item = marked.item
                                 WHERE marked.run_id = attention.run_id AND done.run_id = cleared.run_id
                                   AND marked.state NOT IN ('lost', 'blocked') AND done.state NOT IN ('lost', 'blocked'))
            WHEN 3 THEN (SELECT rtrim(beat.dedup_id, replace(beat.dedup_id, ':', ''))
                            FROM run JOIN beat ON beat.id = run.beat_id WHERE run.id = attention.run_id)
                      = (SELECT rtrim(beat.dedup_id, replace(beat.dedup_id, ':', ''))
                            FROM run JOIN beat ON beat.id = run.beat_id WHERE run.id = cleared.run_id)
            ELSE attention.at <= cleared.started_at END;

-- name: unacked_runs
SELECT json_group_array(json_array(attention.run_id, target.name, schedule.name))
  FROM attention JOIN schedule ON schedule.id = attention.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE attention.acked_at IS NULL AND attention.run_id IN (SELECT value FROM json_each(:rows));

-- name: ack_runs
UPDATE attention SET acked_by = :by, acked_at = :now
  FROM json_each(:rows) WHERE attention.run_id = value AND acked_at IS NULL;

-- name: drop_agent_runs
DELETE FROM agent_run WHERE run_id IN (SELECT value FROM json_each(:rows));

-- name: drop_costs
DELETE FROM run_cost WHERE run_id IN (SELECT value FROM json_each(:rows));

-- name: drop_attention
DELETE FROM attention WHERE run_id IN (SELECT value FROM json_each(:rows));

-- name: set_not_before
UPDATE schedule SET not_before = value ->> 1 FROM json_each(:rows) WHERE schedule.id = value ->> 0;
