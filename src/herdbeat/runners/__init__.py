"""How a target is run: a program, a Python function, and more kinds to come."""
