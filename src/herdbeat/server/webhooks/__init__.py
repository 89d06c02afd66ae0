"""Receives webhook calls: finds their schedule, keeps refused ones, and hands events to the node in batches."""
