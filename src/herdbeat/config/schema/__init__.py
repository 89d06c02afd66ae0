"""Every key of every file, declared once in tables. Validation, loader, JSON Schema and reference follow them."""
