"""The Python API: Herd, Scheduler and the documented functions."""
