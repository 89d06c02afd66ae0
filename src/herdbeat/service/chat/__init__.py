"""Chat of a fleet: its connectors, and how a message becomes a command."""
