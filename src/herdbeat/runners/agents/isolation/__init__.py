"""Isolation of agents: a program and what it may see in, the command line that confines it out."""
