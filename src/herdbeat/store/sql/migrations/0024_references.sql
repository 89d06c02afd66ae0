-- The names of the variables that the specs of a fleet refer to, as a JSON list. Their values are on the node.
INSERT INTO meta (key, value) VALUES ('variables', '[]') ON CONFLICT (key) DO NOTHING;
