-- What people and machines change, and the record of it.

-- name: add_changes
INSERT INTO change (at, who, what, subject, before, after)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM json_each(:rows);

-- name: switches
SELECT json_group_array(json_array(schedule.id, target.name, schedule.name, schedule.enabled, schedule.origin))
  FROM json_each(:rows) JOIN schedule ON schedule.id = value JOIN target ON target.id = schedule.target_id
 WHERE schedule.removed_at IS NULL;

-- name: arm_again
-- A one-shot that is done may fire once more, under a new dedup id.
UPDATE schedule SET arm = arm + 1, is_new = 1, tail_id = NULL, tail = NULL
  FROM json_each(:rows) WHERE schedule.id = value;

-- name: extend_hint
-- The wish that stands already, from the same author: only its end moves.
UPDATE hint SET expires_at = :expires_at
 WHERE schedule_id = :id AND ended_at IS NULL AND expires_at > :now AND origin = :origin AND reason = :reason
   AND every IS :every AND at IS :at;

-- name: end_hints_of
UPDATE hint SET ended_at = :now, ended_by = CASE WHEN expires_at <= :now THEN 'expired' ELSE :by END
 WHERE schedule_id = :id AND ended_at IS NULL
   AND (expires_at <= :now
        OR EXISTS (SELECT 1 FROM json_each(:rows) WHERE origin = value OR origin LIKE value || ':%'));

-- name: end_surplus_one_shots
-- The earliest of a rank are kept.
UPDATE hint SET ended_at = :now, ended_by = 'surplus'
 WHERE id IN (SELECT id FROM hint
               WHERE schedule_id = :id AND ended_at IS NULL AND at IS NOT NULL
                 AND (origin = :rank OR origin LIKE :rank || ':%')
               ORDER BY at, id LIMIT -1 OFFSET :most);

-- name: forget_ended_hints
DELETE FROM hint
 WHERE id IN (SELECT id FROM hint WHERE schedule_id = :id AND ended_at IS NOT NULL ORDER BY id DESC LIMIT -1 OFFSET :most);
