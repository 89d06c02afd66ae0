-- Statements on the table `meta` that both dialects understand.

-- name: set_pace
INSERT INTO meta (key, value) VALUES ('paced_until', :free_at) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: set_places
INSERT INTO meta (key, value) VALUES ('placed_until', :free_at) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: fleet_name
SELECT value FROM meta WHERE key = 'fleet';

-- name: secrets
-- The values that ${…} put into the fleet, as a JSON list. Screens and logs hide them.
SELECT value FROM meta WHERE key = 'secrets';

-- name: prices
-- What the user pays for a million tokens, by model, as a JSON object.
SELECT value FROM meta WHERE key = 'prices';

-- name: set_prices
INSERT INTO meta (key, value) VALUES ('prices', :prices) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: set_secrets
INSERT INTO meta (key, value) VALUES ('secrets', :secrets) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
