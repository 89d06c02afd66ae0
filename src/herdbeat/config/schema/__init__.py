"""Every key of every file, in tables: what checking, JSON Schema and the reference all read."""
