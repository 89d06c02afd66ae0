-- Statements on hints in SQLite's own words. Those of the other dialect have the same names.

-- name: end_one_shots
UPDATE hint SET ended_at = :now, ended_by = 'consumed'
  FROM json_each(:rows)
 WHERE hint.schedule_id = value ->> 0 AND hint.at <= value ->> 1 AND hint.ended_at IS NULL;

-- name: end_older_hints
UPDATE hint SET ended_at = :now,
                ended_by = CASE WHEN expires_at <= :now THEN 'expired' ELSE 'replaced' END
 WHERE schedule_id = :id AND ended_at IS NULL
   AND (expires_at <= :now OR (:is_pace AND every IS NOT NULL AND (origin = :rank OR origin LIKE :rank || ':%')));

-- name: extend_hint
-- Move the end of an identical hint of the same author.
UPDATE hint SET expires_at = :expires_at
 WHERE schedule_id = :id AND ended_at IS NULL AND expires_at > :now AND origin = :origin AND reason = :reason
   AND every IS :every AND at IS :at;

-- name: end_hints_of
UPDATE hint SET ended_at = :now, ended_by = CASE WHEN expires_at <= :now THEN 'expired' ELSE :by END
 WHERE schedule_id = :id AND ended_at IS NULL
   AND (expires_at <= :now
        OR EXISTS (SELECT 1 FROM json_each(:rows) WHERE origin = value OR origin LIKE value || ':%'));

-- name: end_surplus_one_shots
-- The earliest one-shots of a rank are kept.
UPDATE hint SET ended_at = :now, ended_by = 'surplus'
 WHERE id IN (SELECT id FROM hint
               WHERE schedule_id = :id AND ended_at IS NULL AND at IS NOT NULL
                 AND (origin = :rank OR origin LIKE :rank || ':%')
               ORDER BY at, id LIMIT -1 OFFSET :most);

-- name: forget_ended_hints
DELETE FROM hint
 WHERE id IN (SELECT id FROM hint WHERE schedule_id = :id AND ended_at IS NOT NULL ORDER BY id DESC LIMIT -1 OFFSET :most);

-- name: list_hints
SELECT hint.id, target.name AS target, schedule.name, hint.origin, hint.every, hint.at, hint.reason, hint.expires_at,
       hint.created_at, hint.ended_at, coalesce(hint.ended_by, '') AS ended_by
  FROM hint
  JOIN schedule ON schedule.id = hint.schedule_id
  JOIN target ON target.id = schedule.target_id
 WHERE (:ids IS NULL OR hint.schedule_id IN (SELECT value FROM json_each(:ids)))
   AND (:ended_since IS NULL OR hint.ended_at IS NULL OR hint.ended_at >= :ended_since)
 ORDER BY hint.id DESC
 LIMIT :limit;
