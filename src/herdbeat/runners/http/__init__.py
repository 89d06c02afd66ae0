"""Calls an HTTP endpoint, and keeps its fleet from calling what it must not."""
