"""Is this installation well? Every check is a function that gives findings, and changes nothing."""
