-- Where and when the process of a node began. Nodes on the same machine see its end by it, before the lease is over.
-- Understood by programs of schema 5: they write none, and their nodes are found dead by the lease.
ALTER TABLE node ADD COLUMN boot_id text;
ALTER TABLE node ADD COLUMN namespace text;
ALTER TABLE node ADD COLUMN process_start bigint;
