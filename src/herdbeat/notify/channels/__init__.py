"""One module per kind of receiver."""
