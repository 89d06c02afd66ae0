-- Statements on claims of work items in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: taken_items
-- Items that nobody may take now: somebody has them, or the source marks nothing and they are done.
SELECT DISTINCT work_claim.item FROM :rows AS given (item text) JOIN work_claim ON work_claim.item = given.item
 WHERE source = :source
   AND (state IN ('claiming', 'claimed', 'ran') OR (remembers = 1 AND state = 'reported' AND used = 2));

-- name: work_claims_of_runs
SELECT {work_claim_columns} FROM work_claim WHERE run_id IN (SELECT id FROM :rows AS given (id bigint));

-- name: work_claims_by_id
SELECT {work_claim_columns} FROM work_claim WHERE id IN (SELECT id FROM :rows AS given (id bigint)) FOR UPDATE;

-- name: unsettled_work_claims
-- Claims whose run has ended: to be reported or released. What another node has just taken is left to it.
SELECT {work_claim_columns} FROM work_claim
 WHERE state IN ('claiming', 'claimed', 'ran') AND next_at <= :now
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = run_id AND run.status = 'running')
   AND (host IS NULL OR host = :host) ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: next_work_claim
SELECT min(next_at) FROM work_claim
 WHERE state IN ('claiming', 'claimed', 'ran')
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = run_id AND run.status = 'running')
   AND (host IS NULL OR host = :host);

-- name: change_work_claims
UPDATE work_claim SET state = given.state, used = given.used, report = given.report, reason = given.reason,
                      tries = given.tries, next_at = given.next_at, ended_at = given.ended_at
  FROM :rows AS given (id bigint, state text, used integer, report text, reason text, tries integer, next_at bigint,
                       ended_at bigint)
 WHERE work_claim.id = given.id;

-- name: runs_of_same_beats
SELECT beat_id, id, status, coalesce(error, ''), attempt, coalesce(agent_run.error_code, ''),
       coalesce(agent_run.steps, '[]') <> '[]'
  FROM run LEFT JOIN agent_run ON agent_run.run_id = run.id
 WHERE beat_id IN (SELECT given.id FROM :rows AS given (id bigint));
