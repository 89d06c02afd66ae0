"""Executors: engines that start `herdbeat exec` for us, on other machines or in other processes."""
