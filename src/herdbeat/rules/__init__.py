"""Rules turn the results of runs into hints. Everything here is pure: no clock, no I/O, no randomness."""
