"""The former name of the adapters: only `python -m herdbeat.faces.cli` is left, for installed services."""
