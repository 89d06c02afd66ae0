-- Statements on claims of work items in SQLite's own words. Those of the other dialect have the same names.

-- name: work_claim_row
json_array(id, source, item, marker, schedule_id, run_id, attempt, max_attempts, state, data, spec, host, remembers,
           claimed_at, offered_at, ended_at, used, report, reason, tries, next_at);

-- name: taken_items
-- Items that nobody may take now: somebody has them, or the source marks nothing and they are done.
SELECT json_group_array(DISTINCT item) FROM work_claim
 WHERE source = :source AND item IN (SELECT value FROM json_each(:rows))
   AND (state IN ('claiming', 'claimed', 'ran') OR (remembers = 1 AND state = 'reported' AND used = 2));

-- name: work_claims_of_runs
SELECT json_group_array({work_claim_row}) FROM work_claim WHERE run_id IN (SELECT value FROM json_each(:rows));

-- name: work_claims_by_id
SELECT json_group_array({work_claim_row}) FROM work_claim WHERE id IN (SELECT value FROM json_each(:rows));

-- name: unsettled_work_claims
-- Claims whose run has ended: to be reported or released.
SELECT json_group_array({work_claim_row})
  FROM (SELECT work_claim.* FROM work_claim LEFT JOIN run ON run.id = run_id
         WHERE state IN ('claiming', 'claimed', 'ran') AND next_at <= :now AND coalesce(run.status, '') <> 'running'
           AND (host IS NULL OR host = :host) ORDER BY work_claim.id LIMIT :limit);

-- name: next_work_claim
SELECT min(next_at) FROM work_claim LEFT JOIN run ON run.id = run_id
 WHERE state IN ('claiming', 'claimed', 'ran') AND coalesce(run.status, '') <> 'running'
   AND (host IS NULL OR host = :host);

-- name: change_work_claims
UPDATE work_claim SET state = value ->> 1, used = value ->> 2, report = value ->> 3, reason = value ->> 4,
                      tries = value ->> 5, next_at = value ->> 6, ended_at = value ->> 7
  FROM json_each(:rows) WHERE work_claim.id = value ->> 0;

-- name: runs_of_same_beats
SELECT json_group_array(json_array(beat_id, id, status, coalesce(error, ''), attempt, coalesce(agent_run.error_code, ''),
                                   coalesce(agent_run.steps, '[]') <> '[]'))
  FROM run LEFT JOIN agent_run ON agent_run.run_id = run.id
 WHERE beat_id IN (SELECT value FROM json_each(:rows));
