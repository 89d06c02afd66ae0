"""The domain values that every package uses. They do no I/O and import neither store nor adapters."""
