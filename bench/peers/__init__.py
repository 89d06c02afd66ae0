"""The peers, each set up as its own documentation shows. Each script runs in its own process."""
