-- Statements on claims of work items that both dialects understand.

-- name: add_work_claim
-- Nothing is written if somebody has the item.
INSERT INTO work_claim (source, item, marker, schedule_id, run_id, max_attempts, state, data, spec, host, remembers, items_left,
                        claimed_at)
VALUES (:source, :item, :marker, :schedule, :run, :max_attempts, 'claiming', :data, :spec, :host, :remembers, :items_left, :now)
    ON CONFLICT (source, item) WHERE state IN ('claiming', 'claimed', 'ran') DO NOTHING;

-- name: work_claim_by_marker
SELECT id FROM work_claim WHERE marker = :marker;

-- name: drop_blocked_item
-- Whoever takes an item again has another look at why it was blocked.
DELETE FROM work_claim WHERE source = :source AND item = :item AND state = 'blocked';

-- name: confirm_work_claim
UPDATE work_claim SET state = 'claimed', attempt = :attempt, offered_at = :offered_at, data = :data
 WHERE id = :id AND state = 'claiming';

-- name: attempts_since_offer
-- By the source's own clock: ours may differ.
SELECT count(*) FROM work_claim
 WHERE source = :source AND item = :item AND used > 0 AND id < :before AND offered_at >= :since;

-- name: attempts_since_end
-- For a source that does not know who has offered an item: since its last report that did not offer it again.
SELECT count(*) FROM work_claim
 WHERE source = :source AND item = :item AND used = 1 AND id < :before
   AND id > (SELECT coalesce(max(id), 0) FROM work_claim
              WHERE source = :source AND item = :item AND used = 2 AND id < :before);

-- name: drop_work_claims
-- What is remembered keeps its newest row: the source marks nothing, so the row is all that says that it was done.
DELETE FROM work_claim
 WHERE id IN (SELECT id FROM work_claim
               WHERE state NOT IN ('claiming', 'claimed', 'ran') AND ended_at < :before
                 AND (remembers = 0 OR state <> 'reported') LIMIT :limit);

-- name: work_claim_columns
id, source, item, marker, schedule_id, run_id, attempt, max_attempts, state, data, spec, host, remembers, claimed_at,
       offered_at, ended_at, used, report, reason, tries, next_at;

-- name: list_work_claims
-- The newest first. What was lost belongs to somebody else.
SELECT {shown_work_claim}
 WHERE work_claim.state <> 'lost' AND (:target IS NULL OR target.name = :target) AND (:open = 0 OR {is_open_work_claim} OR work_claim.state = 'blocked')
 ORDER BY work_claim.id DESC LIMIT :limit;

-- name: is_open_work_claim
work_claim.state IN ('claiming', 'claimed', 'ran');

-- name: shown_work_claim
work_claim.id, work_claim.source, work_claim.item, work_claim.marker, work_claim.schedule_id, work_claim.run_id,
       work_claim.attempt, work_claim.max_attempts, work_claim.state, work_claim.data, work_claim.spec, work_claim.host,
       work_claim.remembers, work_claim.claimed_at, work_claim.offered_at, work_claim.ended_at, work_claim.used,
       work_claim.report, work_claim.reason, work_claim.tries, work_claim.next_at,
       target.name AS target, schedule.name AS schedule, coalesce(run.status, '') AS run_status
  FROM work_claim
  JOIN schedule ON schedule.id = work_claim.schedule_id JOIN target ON target.id = schedule.target_id
  LEFT JOIN run ON run.id = work_claim.run_id;

-- name: work_claim_of_run
-- The item that a run worked on: of several that it tried to get, the last.
SELECT {shown_work_claim}
 WHERE work_claim.run_id = :run AND work_claim.state NOT IN ('lost', 'blocked') ORDER BY work_claim.id DESC LIMIT 1;

-- name: work_done_between
-- The items whose runs succeeded in a time, in that order.
SELECT {shown_work_claim}
 WHERE run.status = 'succeeded' AND run.finished_at >= :since AND run.finished_at < :until
   AND work_claim.state NOT IN ('lost', 'blocked')
 ORDER BY run.finished_at, work_claim.id LIMIT :limit;

-- name: end_work_leases
-- Only without a failed try: what has failed waits for its next one.
UPDATE work_claim SET next_at = 0 WHERE state IN ('claiming', 'claimed', 'ran') AND tries = 0;

-- name: move_work_claims
-- The ledger of a single node is where its folders and programs are, whatever the host is called now.
UPDATE work_claim SET host = :host WHERE state IN ('claiming', 'claimed', 'ran') AND host <> :host;

-- name: earlier_attempts
SELECT {shown_work_claim}
 WHERE work_claim.source = :source AND work_claim.item = :item AND work_claim.id < :before AND work_claim.used > 0
 ORDER BY work_claim.id DESC LIMIT :limit;
