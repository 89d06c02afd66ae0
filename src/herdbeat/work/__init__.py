"""Work sources: where a schedule gets its work items from, and where it reports their outcomes."""
