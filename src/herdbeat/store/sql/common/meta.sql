-- Statements on the table `meta` that both dialects understand.

-- name: set_catchup_cursor
INSERT INTO meta (key, value) VALUES ('paced_until', :free_at) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: set_start_slot_cursor
INSERT INTO meta (key, value) VALUES ('placed_until', :free_at) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: fleet_name
SELECT value FROM meta WHERE key = 'fleet';

-- name: variables
-- The names of the variables that the specs of the fleet refer to, as a JSON list.
SELECT value FROM meta WHERE key = 'variables';

-- name: set_variables
INSERT INTO meta (key, value) VALUES ('variables', :variables) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: secrets
-- The values that ${…} put into the fleet, as a JSON list, if an older version has stored them.
SELECT value FROM meta WHERE key = 'secrets';

-- name: delete_secrets
DELETE FROM meta WHERE key = 'secrets';

-- name: delete_secret_plans
-- The newest is in use, or was written by somebody who is about to use it.
DELETE FROM plan
 WHERE id <> (SELECT max(id) FROM plan) AND NOT EXISTS (SELECT 1 FROM schedule WHERE plan_id = plan.id);

-- name: clear_sent_specs
UPDATE outbox SET spec = '{}' WHERE state NOT IN ('pending', 'started');

-- name: clear_settled_specs
UPDATE work_claim SET spec = '{}' WHERE state NOT IN ('claiming', 'claimed', 'ran');

-- name: prices
-- What the user pays for a million tokens, by model, as a JSON object.
SELECT value FROM meta WHERE key = 'prices';

-- name: set_prices
INSERT INTO meta (key, value) VALUES ('prices', :prices) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
