"""What a user would pick instead, each set up as its own documents show. One script each, run in a process alone."""
