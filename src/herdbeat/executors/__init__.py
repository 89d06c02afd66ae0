"""Where runs happen: engines that start `herdbeat exec` for us."""
