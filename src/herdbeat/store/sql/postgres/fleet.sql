-- What a fleet consists of, and who serves it.

-- name: add_plans
INSERT INTO plan (text) SELECT text FROM :rows AS given (text text) ON CONFLICT (md5(text)) DO NOTHING;

-- name: known_plans
SELECT plan.text, plan.id FROM :rows AS given (text text)
  JOIN plan ON md5(plan.text) = md5(given.text) AND plan.text = given.text;

-- name: targets
SELECT id, name, kind, spec, origin, max_concurrent FROM target WHERE removed_at IS NULL ORDER BY id;

-- name: add_targets
INSERT INTO target (name, kind, spec, origin, max_concurrent)
SELECT name, kind, spec, origin, max_concurrent
  FROM :rows AS given (name text, kind text, spec text, origin text, max_concurrent integer)
    ON CONFLICT (name) DO UPDATE
   SET kind = excluded.kind, spec = excluded.spec, origin = excluded.origin, max_concurrent = excluded.max_concurrent,
       revision = target.revision + 1, removed_at = NULL;

-- name: change_catalogue
INSERT INTO meta (key, value) VALUES ('catalogue', '1')
    ON CONFLICT (key) DO UPDATE SET value = meta.value::bigint + 1;

-- name: ids_of_targets
SELECT target.name, target.id FROM :rows AS given (name text) JOIN target USING (name);

-- name: change_targets
UPDATE target SET kind = given.kind, spec = given.spec, origin = given.origin, max_concurrent = given.max_concurrent,
                  revision = revision + 1
  FROM :rows AS given (id bigint, name text, kind text, spec text, origin text, max_concurrent integer)
 WHERE target.id = given.id;

-- name: remove_targets
UPDATE target SET removed_at = :now FROM :rows AS given (id bigint) WHERE target.id = given.id;

-- name: schedules_of
SELECT schedule.id, target_id, name, kind, plan_id, brief, origin, enabled
  FROM schedule WHERE removed_at IS NULL AND target_id IN (SELECT id FROM :rows AS given (id bigint)) ORDER BY id;

-- name: add_schedules
-- A removed schedule of the same name comes back with its history; the mark keeps its past from firing again.
INSERT INTO schedule (target_id, name, kind, plan_id, brief, origin, enabled, next_run_at, next_due_at, next_source,
                      next_origin, next_trace, wake_at, created_at, anchor_at, settled_until)
SELECT target_id, name, kind, plan_id, brief, origin, enabled, next_run_at, next_due_at, next_source, next_origin,
       next_trace, wake_at, :now, :now, :now
  FROM :rows AS given (target_id bigint, name text, kind text, plan_id bigint, brief text, origin text,
                       enabled integer, next_run_at bigint, next_due_at bigint, next_source text, next_origin text,
                       next_trace text, wake_at bigint)
    ON CONFLICT (target_id, name) DO UPDATE
   SET kind = excluded.kind, plan_id = excluded.plan_id, brief = excluded.brief, origin = excluded.origin,
       enabled = excluded.enabled, next_run_at = excluded.next_run_at, next_due_at = excluded.next_due_at,
       next_source = excluded.next_source, next_origin = excluded.next_origin, next_trace = excluded.next_trace,
       wake_at = excluded.wake_at, anchor_at = :now, settled_until = :now, is_new = 1, failures = 0, runs = 0,
       arm = schedule.arm + 1, revision = schedule.revision + 1, quarantine = NULL, removed_at = NULL, skips = 0;

-- name: edit_schedules
UPDATE schedule
   SET kind = given.kind, plan_id = given.plan_id, brief = given.brief, origin = given.origin,
       enabled = given.enabled, next_run_at = given.next_run_at, next_due_at = given.next_due_at,
       next_source = given.next_source, next_origin = given.next_origin,
       next_trace = coalesce(given.next_trace, schedule.next_trace), wake_at = given.wake_at, settled_until = :now,
       revision = revision + 1, quarantine = NULL
  FROM :rows AS given (id bigint, target_id bigint, name text, kind text, plan_id bigint, brief text, origin text,
                       enabled integer, next_run_at bigint, next_due_at bigint, next_source text, next_origin text,
                       next_trace text, wake_at bigint)
 WHERE schedule.id = given.id;

-- name: move_schedules
UPDATE schedule SET origin = given.origin FROM :rows AS given (id bigint, origin text) WHERE schedule.id = given.id;

-- name: remove_schedules
UPDATE schedule SET removed_at = :now, next_run_at = NULL, next_due_at = NULL, wake_at = NULL, waiting = 0
  FROM :rows AS given (id bigint) WHERE schedule.id = given.id;

-- name: expire_waiting
-- What waits of a schedule that is no longer there. A beat that has a run already is `ran`.
UPDATE beat SET outcome = CASE WHEN attempt > 1 THEN 'ran' ELSE 'skipped' END,
                reason = CASE WHEN attempt > 1 THEN '' ELSE 'expired' END, wake_at = NULL, settled_at = :now
 WHERE outcome = 'pending' AND schedule_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: gaps
SELECT from_at, until, reason FROM gap WHERE until > :since ORDER BY from_at;

-- name: pull_back
-- The clock was put back: marks and anchors that lie in the future come back to now. What really started
-- stays blocked by its dedup id.
UPDATE schedule SET anchor_at = least(anchor_at, :now), settled_until = least(settled_until, :now), wake_at = :now,
                    next_run_at = NULL, next_due_at = NULL
 WHERE (anchor_at > :now OR settled_until > :now) AND removed_at IS NULL AND quarantine IS NULL AND running = 0 AND waiting = 0;

-- name: join_node
INSERT INTO node (host, pid, version, started_at, seen_at, lease_until, labels, works)
VALUES (:host, :pid, :version, :now, :now, herdbeat_now() + :lease, :labels, :works)
RETURNING id;

-- name: only_one_joins
-- Whether there was a gap is seen by the first to come, and by nobody beside it.
SELECT pg_advisory_xact_lock(hashtext('herdbeat: join'));

-- name: only_one_applies
SELECT pg_advisory_xact_lock(hashtext('herdbeat: apply'));

-- name: last_sign
-- Until when anybody could run anything: what came after it and before now is the gap.
SELECT max(coalesce(stopped_at, lease_until)) FROM node WHERE works = 1;

-- name: renew_node
UPDATE node SET seen_at = :now, lease_until = herdbeat_now() + :lease
 WHERE id = :node AND stopped_at IS NULL AND lease_until > herdbeat_now();

-- name: leave_node
UPDATE node SET seen_at = :now, stopped_at = least(:now, lease_until) WHERE id = :node AND stopped_at IS NULL;

-- name: hold_node
-- Every write of a node begins so: it waits for a sweep that is at the node's row, and finds nothing afterwards.
UPDATE node SET writes = :writes WHERE id = :node AND stopped_at IS NULL AND lease_until > herdbeat_now();

-- name: last_write
-- Waits until a transaction that is still open somewhere has come to its end.
SELECT writes FROM node WHERE id = :node FOR UPDATE;

-- name: give_up_dead_nodes
-- Exclusively: a node in the middle of a write is let be, and asked for again at the next sweep. It held what it held
-- until its lease was over.
UPDATE node SET stopped_at = lease_until
 WHERE id IN (SELECT id FROM node WHERE stopped_at IS NULL AND lease_until <= herdbeat_now() AND id <> :node
               ORDER BY id FOR UPDATE SKIP LOCKED);

-- name: orphaned_runs
-- Open runs of nodes that hold nothing any more.
SELECT run.id FROM run LEFT JOIN node ON node.id = run.node_id
 WHERE run.status = 'running' AND run.node_id <> :node AND (node.id IS NULL OR node.stopped_at IS NOT NULL)
 ORDER BY run.id LIMIT :limit;

-- name: database_time
SELECT herdbeat_now();

-- name: take_fleet_name
INSERT INTO meta (key, value) VALUES ('fleet', :fleet) ON CONFLICT (key) DO NOTHING;

-- name: settings
-- Told to every transaction, for a pooler may hand out another connection each time. Plans are made once, by way of
-- the indexes: one that was made while the tables were empty would go on reading them through when they are full.
SELECT set_config('statement_timeout', :statement, true), set_config('lock_timeout', :lock, true),
       set_config('idle_in_transaction_session_timeout', :idle, true),
       set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true);

-- name: tell_others
SELECT pg_notify('herdbeat', '');
