"""The ledger: every beat and run, durable before anything starts and before anything is reported."""
