"""Work sources: where a schedule gets its items of work from, and where it reports what became of them."""
