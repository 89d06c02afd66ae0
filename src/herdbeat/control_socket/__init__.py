"""The control socket in the state directory: how other processes reach the one that runs the fleet."""
