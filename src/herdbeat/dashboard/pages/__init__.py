"""One module per page: from a request's context to HTML."""
