"""The planner beside the loop: which group is due, what a session sees, and what becomes of its proposals."""
