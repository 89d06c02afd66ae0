-- The schema that the program of a node knows. What older programs would not respect is refused while they run.
-- Understood by programs of schema 16: their nodes write no number, and so count as older than any.
ALTER TABLE node ADD COLUMN schema integer NOT NULL DEFAULT 0;
