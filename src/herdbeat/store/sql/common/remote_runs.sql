-- Statements on runs that happen on an engine. Both dialects understand them.

-- name: add_remote_run
INSERT INTO remote_run (run_id, name, executor, state, start_by, token, job, claim, created_at)
VALUES (:run, :job_name, :executor, 'submitted', :start_by, :token, :job, :claim, :now);

-- name: drop_remote_runs
-- What is known of old ones goes with their history.
DELETE FROM remote_run WHERE created_at < :before AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = run_id);

-- name: drop_lost_remote_logs
-- Parts that nobody has read: the run was ended by a node that did not follow it.
DELETE FROM remote_log
 WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.id = remote_log.run_id AND run.status = 'running');

-- name: find_remote_run
SELECT remote_run.run_id, remote_run.name, remote_run.executor, remote_run.state, remote_run.start_by, remote_run.nonce,
       remote_run.place, remote_run.lease_until, remote_run.extended, remote_run.stop_reason, remote_run.result,
       remote_run.claim, CASE WHEN run.status = 'running' THEN 1 ELSE 0 END AS is_open
  FROM remote_run JOIN run ON run.id = remote_run.run_id WHERE remote_run.run_id = :run;

-- name: remote_places
SELECT remote_run.run_id, remote_run.executor, remote_run.place, remote_run.name
  FROM remote_run JOIN run ON run.id = remote_run.run_id
 WHERE remote_run.state <> 'ended' AND run.status = 'running' ORDER BY remote_run.run_id LIMIT :limit;

-- name: open_remote_runs
SELECT remote_run.run_id, remote_run.name, remote_run.executor, remote_run.state, remote_run.start_by, remote_run.nonce,
       remote_run.place, remote_run.lease_until, remote_run.extended, remote_run.stop_reason, remote_run.result,
       remote_run.claim, CASE WHEN run.status = 'running' THEN 1 ELSE 0 END AS is_open
  FROM remote_run JOIN run ON run.id = remote_run.run_id WHERE run.status = 'running' AND run.node_id = :node;

-- name: remote_job
SELECT job, token FROM remote_run WHERE run_id = :run;

-- name: take_remote_run
UPDATE remote_run SET state = 'taken', nonce = :nonce, place = :place, lease_until = :lease_until
 WHERE run_id = :run AND state = 'submitted' AND stop_reason = ''
   AND EXISTS (SELECT 1 FROM run WHERE run.id = run_id AND run.status = 'running');

-- name: renew_remote_run
UPDATE remote_run SET lease_until = :lease_until, extended = 0 WHERE run_id = :run AND nonce = :nonce AND state = 'taken';

-- name: set_remote_result
-- The first result stays.
UPDATE remote_run SET result = :result, job = '' WHERE run_id = :run AND nonce = :nonce AND state = 'taken' AND result = '';

-- name: stop_remote_run
UPDATE remote_run SET stop_reason = :why WHERE run_id = :run AND stop_reason = '';

-- name: open_remote_pairs
SELECT run.schedule_id, run.id
  FROM run JOIN remote_run ON remote_run.run_id = run.id
 WHERE run.status = 'running' AND remote_run.state <> 'ended' AND remote_run.result = ''

-- name: set_remote_place
UPDATE remote_run SET place = :place WHERE run_id = :run;

-- name: end_untaken_remote_run
UPDATE remote_run SET state = 'ended', job = '' WHERE run_id = :run AND state = 'submitted';

-- name: end_lapsed_remote_run
UPDATE remote_run SET state = 'ended', job = ''
 WHERE run_id = :run AND state = 'taken' AND lease_until <= :now AND result = '';

-- name: end_remote_run
UPDATE remote_run SET state = 'ended', job = '' WHERE run_id = :run;

-- name: extend_remote_run
UPDATE remote_run SET lease_until = :lease_until, extended = 1 WHERE run_id = :run AND state = 'taken' AND extended = 0;

-- name: adopt_remote_run
UPDATE run SET node_id = :node WHERE id = :run AND status = 'running';

-- name: add_remote_log
INSERT INTO remote_log (run_id, sequence, text) VALUES (:run, :sequence, :text) ON CONFLICT DO NOTHING;

-- name: drop_remote_log
DELETE FROM remote_log WHERE run_id = :run AND sequence <= :sequence;

-- name: remote_log
SELECT sequence, text FROM remote_log WHERE run_id = :run AND sequence > :sequence ORDER BY sequence;

-- name: live_remote_names
SELECT remote_run.name
  FROM remote_run JOIN run ON run.id = remote_run.run_id
 WHERE remote_run.executor = :executor AND remote_run.state <> 'ended' AND run.status = 'running';
