-- The branch on which the run of an agent has left changes; empty if it has left none.
-- Understood by programs of schema 8: they write rows without it.
ALTER TABLE agent_run ADD COLUMN branch TEXT NOT NULL DEFAULT '';
