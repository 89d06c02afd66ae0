-- Statements on plans in PostgreSQL's own words. Those of the other dialect have the same names.

-- name: add_plans
INSERT INTO plan (text) SELECT text FROM :rows AS given (text text) ON CONFLICT (md5(text)) DO NOTHING;

-- name: known_plans
SELECT plan.text, plan.id FROM :rows AS given (text text)
  JOIN plan ON md5(plan.text) = md5(given.text) AND plan.text = given.text;

-- name: unused_plans
-- The newest stays: a transaction may be about to add the schedule that uses it.
SELECT id FROM plan
 WHERE id <> (SELECT max(id) FROM plan) AND NOT EXISTS (SELECT 1 FROM schedule WHERE plan_id = plan.id) LIMIT :limit;

-- name: drop_plans
DELETE FROM plan
 WHERE id IN (SELECT id FROM :rows AS given (id bigint)) AND NOT EXISTS (SELECT 1 FROM schedule WHERE plan_id = plan.id);

-- name: plans_with_tags_or_groups
-- Schedules share plans, so there are few. A plan that cannot be read has no tags.
SELECT id FROM plan
 WHERE herdbeat_json(text) -> 'policies' ->> 'group' = ANY(:groups)
    OR EXISTS (SELECT 1 FROM json_array_elements_text(herdbeat_json(text) -> 'policies' -> 'tags') AS tag
                WHERE tag = ANY(:tags));

-- name: known_tags_and_groups
SELECT DISTINCT tag FROM plan, json_array_elements_text(herdbeat_json(text) -> 'policies' -> 'tags') AS tag
 UNION SELECT herdbeat_json(text) -> 'policies' ->> 'group' FROM plan
        WHERE herdbeat_json(text) -> 'policies' ->> 'group' IS NOT NULL;
