"""What adapters can do with a fleet: commands, queries, maintenance, and the workers beside the loop."""
