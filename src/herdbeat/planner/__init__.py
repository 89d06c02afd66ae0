"""The planner: asks a model about a group of schedules. Everything it proposes is staged, checked and recorded."""
