"""The server: REST, live events and tokens, in a process of its own. An adapter over `service`: it decides nothing."""
