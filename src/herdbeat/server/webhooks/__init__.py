"""Incoming webhooks: verify the signature over the raw body, then record one beat per delivery."""
