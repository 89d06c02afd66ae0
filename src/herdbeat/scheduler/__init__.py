"""The engine: wakes when something is due, accounts for every instant, and runs what is to run."""
