-- Statements on hints in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: end_one_shots
UPDATE hint SET ended_at = :now, ended_by = 'consumed'
  FROM :rows AS given (schedule_id bigint, due_at bigint)
 WHERE hint.schedule_id = given.schedule_id AND hint.at <= given.due_at AND hint.ended_at IS NULL;

-- name: end_older_hints
UPDATE hint SET ended_at = :now,
                ended_by = CASE WHEN expires_at <= :now THEN 'expired' ELSE 'replaced' END
 WHERE schedule_id = :id AND ended_at IS NULL
   AND (expires_at <= :now
        OR (:is_pace = 1 AND every IS NOT NULL AND (origin = :rank OR starts_with(origin, :rank || ':'))));

-- name: extend_hint
-- Move the end of an identical hint of the same author.
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
-- The earliest one-shots of a rank are kept.
UPDATE hint SET ended_at = :now, ended_by = 'surplus'
 WHERE id IN (SELECT id FROM hint
               WHERE schedule_id = :id AND ended_at IS NULL AND at IS NOT NULL
                 AND (origin = :rank OR starts_with(origin, :rank || ':'))
               ORDER BY at, id OFFSET :most);

-- name: forget_ended_hints
DELETE FROM hint
 WHERE id IN (SELECT id FROM hint WHERE schedule_id = :id AND ended_at IS NOT NULL ORDER BY id DESC OFFSET :most);

-- name: list_hints
SELECT hint.id, target.name AS target, schedule.name, hint.origin, hint.every, hint.at, hint.reason, hint.expires_at,
       hint.created_at, hint.ended_at, coalesce(hint.ended_by, '') AS ended_by
  FROM hint
  JOIN schedule ON schedule.id = hint.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE (:ids::bigint[] IS NULL OR hint.schedule_id = ANY(:ids))
   AND (:ended_since IS NULL OR hint.ended_at IS NULL OR hint.ended_at >= :ended_since)
 ORDER BY hint.id DESC
 LIMIT :limit;
