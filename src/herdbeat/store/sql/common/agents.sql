-- Statements on agents that both dialects understand: their sessions, the holds of their accounts, marks for people.

-- name: open_hold_exists
-- A part of the one query with which a claim asks whether there is anything that few fleets have.
EXISTS (SELECT 1 FROM account_hold WHERE released_at IS NULL);

-- name: rare_gates
SELECT EXISTS (SELECT 1 FROM budget), {open_hold_exists};

-- name: hold_columns
id, account, model, began_at, until, stated, streak, run_id, text, released_at, released_by;

-- name: last_hold
-- The newest hold of an account or of one of its models, open or not.
SELECT {hold_columns} FROM account_hold WHERE account = :account AND model = :model ORDER BY id DESC LIMIT 1;

-- name: add_hold
INSERT INTO account_hold (account, model, began_at, until, stated, streak, run_id, text)
VALUES (:account, :model, :began_at, :until, :stated, :streak, :run, :text);

-- name: move_hold
UPDATE account_hold SET until = :until, stated = :stated WHERE id = :id;

-- name: release_holds
UPDATE account_hold SET released_at = :now, released_by = :by WHERE account = :account AND released_at IS NULL;

-- name: wake_rate_limited
-- All that wait for any account: those whose account is still held wait again.
UPDATE beat SET wake_at = :now WHERE outcome = 'pending' AND reason = 'rate_limited';

-- name: drop_holds
DELETE FROM account_hold WHERE released_at < :before;

-- name: drop_sessions
DELETE FROM session WHERE last_used_at < :before;

-- name: list_holds
SELECT {hold_columns} FROM account_hold WHERE released_at IS NULL AND until > :now ORDER BY until, id;

-- name: schedules_with_account
-- The account and the model of every schedule of an agent: its own, else its target's, else what the last run used.
SELECT schedule.id, {account_of}, {model_of}
  FROM schedule JOIN target ON target.id = schedule.target_id
  LEFT JOIN target_account ON target_account.target_id = target.id
 WHERE target.kind = 'agent' AND schedule.removed_at IS NULL;

-- name: branches_elsewhere
SELECT agent_run.run_id, target.name, agent_run.branch, node.host
  FROM agent_run
  JOIN run ON run.id = agent_run.run_id
  JOIN node ON node.id = run.node_id
  JOIN schedule ON schedule.id = run.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE agent_run.branch <> '' AND node.host <> :host
 ORDER BY agent_run.run_id DESC LIMIT :limit;

-- name: agent_run
SELECT error_code, account, model, answer, quiet, empty_answer, turns, steps, steps_left_out, prompt, branch
  FROM agent_run WHERE run_id = :id;

-- name: cost_of_run
SELECT source, usd, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, notional
  FROM run_cost WHERE run_id = :id;

-- name: attention_of_run
SELECT attention.run_id, target.name AS target, schedule.name, attention.what, attention.at, attention.acked_by,
       attention.acked_at
  FROM attention JOIN schedule ON schedule.id = attention.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE attention.run_id = :id;

-- name: open_attention
SELECT attention.run_id, target.name AS target, schedule.name, attention.what, attention.at, attention.acked_by,
       attention.acked_at
  FROM attention JOIN schedule ON schedule.id = attention.schedule_id JOIN target ON target.id = schedule.target_id
 WHERE attention.acked_at IS NULL
 ORDER BY attention.run_id DESC LIMIT :limit;

-- name: list_sessions
SELECT session.runtime, session.session_id, target.name AS target, schedule.name, session.host, session.created_at,
       session.last_used_at, session.runs, session.usd, session.input_tokens, session.cache_read_tokens,
       session.cache_write_tokens, session.output_tokens, run.id AS in_use_by
  FROM session
  JOIN schedule ON schedule.id = session.schedule_id
  JOIN target ON target.id = schedule.target_id
  LEFT JOIN run ON run.id = session.run_id AND run.status = 'running'
 WHERE (:target IS NULL OR target.name = :target) AND (:name IS NULL OR schedule.name = :name)
 ORDER BY session.last_used_at DESC LIMIT :limit;

-- name: cost_lines
-- By day and schedule and source of the figures. The caller sums them up as asked.
SELECT run_cost.day, target.name AS target, schedule.name, run_cost.source, run_cost.notional, count(*) AS runs,
       sum(run_cost.usd) AS usd,
       CAST(sum(run_cost.input_tokens) AS bigint) AS input_tokens,
       CAST(sum(run_cost.cache_read_tokens) AS bigint) AS cache_read_tokens,
       CAST(sum(run_cost.cache_write_tokens) AS bigint) AS cache_write_tokens,
       CAST(sum(run_cost.output_tokens) AS bigint) AS output_tokens
  FROM run_cost
  JOIN schedule ON schedule.id = run_cost.schedule_id
  JOIN target ON target.id = run_cost.target_id
 WHERE run_cost.day >= :day
   AND (:target IS NULL OR target.name = :target) AND (:name IS NULL OR schedule.name = :name)
 GROUP BY run_cost.day, target.name, schedule.name, run_cost.source, run_cost.notional
 ORDER BY run_cost.day DESC, target.name, schedule.name, run_cost.source;

-- name: is_of_thread
-- A run of the same conversation has used it: the dedup ids of its beats begin alike.
EXISTS (SELECT 1 FROM beat JOIN run AS spoken ON spoken.beat_id = beat.id
                WHERE beat.schedule_id = session.schedule_id AND beat.dedup_id >= :thread AND beat.dedup_id < :thread_end
                  AND spoken.session = session.session_id);
