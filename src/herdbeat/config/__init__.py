"""Load, validate and resolve configuration files into a Fleet. Every problem has a location and a fix."""
