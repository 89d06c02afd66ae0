"""The PostgreSQL store: many nodes, one ledger."""
