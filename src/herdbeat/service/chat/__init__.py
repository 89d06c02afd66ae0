"""Chat of a fleet: its connectors, and the way of a message to the command bus."""
