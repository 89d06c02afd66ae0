"""Incoming webhooks: verify a call over its raw body, then say what it is. The server receives them."""
