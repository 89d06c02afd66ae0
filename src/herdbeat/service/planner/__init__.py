"""The planner beside the loop: which group is due, what a session sees, and how its proposals are applied."""
