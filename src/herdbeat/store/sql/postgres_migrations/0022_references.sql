-- The names of the variables that the specs of a fleet refer to, as a JSON list. Their values are on the nodes.
-- Understood by programs of schema 16: specs with references are refused while one of them runs.
INSERT INTO meta (key, value) VALUES ('variables', '[]') ON CONFLICT (key) DO NOTHING;
