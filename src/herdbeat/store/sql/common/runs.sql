-- Statements on runs that both dialects understand.

-- name: running_in_all
SELECT count(*) FROM run WHERE status = 'running';

-- name: oldest_open_run
SELECT min(claimed_at) FROM run WHERE status = 'running';

-- name: last_attempt
-- The newest run of the beat that a run belongs to.
SELECT run.id, run.beat_id, run.schedule_id, run.attempt, run.status, beat.outcome
  FROM run JOIN beat ON beat.id = run.beat_id
 WHERE run.beat_id = (SELECT beat_id FROM run WHERE id = :run)
 ORDER BY run.id DESC LIMIT 1;

-- name: last_usage_of
SELECT usage FROM (SELECT usage FROM run WHERE schedule_id = :schedule ORDER BY id DESC LIMIT :limit)
 WHERE usage IS NOT NULL;

-- name: open_run_ids
SELECT id FROM run WHERE status = 'running' ORDER BY +id LIMIT :limit;

-- name: newest_runs
SELECT id FROM run WHERE {matches_run_filter} AND {of_target} ORDER BY id DESC LIMIT :limit;

-- name: runs_of_beat
SELECT id FROM run WHERE beat_id = :beat AND {matches_run_filter} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: running_run_ids
SELECT id FROM run WHERE status = 'running' AND {matches_run_filter} AND {of_target} ORDER BY +id DESC LIMIT :limit;

-- name: ended_run_ids
SELECT id FROM run
 WHERE status NOT IN ('running', 'succeeded') AND status = :status AND {matches_run_filter} AND {of_target}
 ORDER BY id DESC LIMIT :limit;

-- name: run_details
SELECT run.response, coalesce(run.usage, '{}') AS usage, coalesce(run.session, '') AS session,
       coalesce(run.note, '') AS note, coalesce(node.host, '') AS host, node.pid, coalesce(node.version, '') AS version,
       coalesce(remote_run.executor, 'local') AS executor, coalesce(remote_run.place, '') AS place,
       coalesce(remote_run.name, '') AS job
  FROM run LEFT JOIN node ON node.id = run.node_id LEFT JOIN remote_run ON remote_run.run_id = run.id
 WHERE run.id = :id;

-- name: first_run_since
SELECT id, claimed_at FROM run WHERE id >= :id ORDER BY id LIMIT 1;

-- name: newest_run
SELECT coalesce(max(id), 0) FROM run;

-- name: runs_after
-- For followers of a log: the runs since the last query, the oldest first.
SELECT id FROM run WHERE id > :after ORDER BY id LIMIT :limit;

-- name: list_runs
SELECT run.id, target.name AS target, schedule.name, beat.id AS beat_id, run.attempt, run.status, run.claimed_at, run.started_at,
       run.finished_at, run.code, run.error, run.summary, run.log,
       coalesce(run.source, beat.source) AS source, coalesce(run.origin, beat.origin) AS origin, beat.due_at, beat.dedup_id,
       coalesce(run.note, '') AS note, coalesce(run.session, '') AS session, coalesce(run.usage, '{}') AS usage,
       run_cost.source AS spend_source, run_cost.notional AS is_notional, agent_run.error_code, agent_run.quiet,
       agent_run.empty_answer, agent_run.branch, attention.what AS needs_you, attention.acked_by
  FROM run
  JOIN beat ON beat.id = run.beat_id
  JOIN schedule ON schedule.id = run.schedule_id
  JOIN target ON target.id = schedule.target_id
  LEFT JOIN agent_run ON agent_run.run_id = run.id
  LEFT JOIN run_cost ON run_cost.run_id = run.id
  LEFT JOIN attention ON attention.run_id = run.id
 WHERE run.id {in_ids}
 ORDER BY run.id DESC;

-- name: running_ids_among
SELECT id FROM run WHERE status = 'running' AND id {in_ids};

-- name: failed_counts
-- How many runs of each schedule have failed, from a run on, by the newest of them.
SELECT schedule_id, count(*)
  FROM (SELECT schedule_id FROM run WHERE status NOT IN ('running', 'succeeded') AND status = :status
           AND id >= :first_run AND id < :before_run
         ORDER BY id DESC LIMIT :limit) AS newest
 GROUP BY schedule_id;

-- name: spans_of_failures
SELECT beat.schedule_id AS schedule, beat.outcome, beat.due_at, beat.last_due_at, beat.count AS number, run.status,
       coalesce(run.started_at, run.claimed_at) AS started_at, run.finished_at, run.id AS run
  FROM run JOIN beat ON beat.id = run.beat_id
 WHERE run.status NOT IN ('running', 'succeeded') AND run.status IN ('failed', 'timed_out', 'interrupted', 'cancelled')
   AND run.id >= :first_run AND run.id < :before_run AND run.schedule_id {in_ids}
 ORDER BY run.id DESC LIMIT :limit;

-- name: schedules_of_period
-- Schedules of the newest runs of a period, the latest first.
SELECT newest.schedule_id
  FROM (SELECT schedule_id, id FROM run WHERE id >= :first_run AND id < :before_run ORDER BY id DESC LIMIT :looked_at) AS newest
  JOIN schedule ON schedule.id = newest.schedule_id
 WHERE schedule.removed_at IS NULL
 GROUP BY newest.schedule_id ORDER BY max(newest.id) DESC LIMIT :limit;

-- name: first_runs_of
-- One look into the index for each schedule: a minimum over all their runs would read every one.
SELECT schedule.id, (SELECT coalesce(run.started_at, run.claimed_at) FROM run
                      WHERE run.schedule_id = schedule.id ORDER BY run.id LIMIT 1)
  FROM schedule WHERE schedule.id {in_ids};

-- name: lateness_of_nodes
-- As `recent_lateness`, with the node that ran each beat.
SELECT run.node_id, beat.created_at, beat.due_at, beat.trace FROM run JOIN beat ON beat.id = run.beat_id
 WHERE run.id > (SELECT coalesce(max(id), 0) FROM run) - 1000 AND run.attempt = 1
   AND beat.source IN ('baseline-interval', 'baseline-cron', 'ai-interval', 'ai-oneshot') AND beat.count = 1
 ORDER BY run.id DESC LIMIT :limit;
