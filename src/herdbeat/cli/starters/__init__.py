"""Fleet files to begin with. Each is valid, and runs as it is or says in comments what to fill in."""
