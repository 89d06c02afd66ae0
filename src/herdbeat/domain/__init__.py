"""The nouns: values that every room speaks in. They know nothing of files, stores or faces."""
