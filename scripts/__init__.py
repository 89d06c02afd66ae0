"""What keeps the pages true: the generated reference, and the examples that are run."""
