"""The socket in the state directory: how other commands talk to the herdbeat that runs there."""
