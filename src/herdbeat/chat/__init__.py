"""Slack and Discord: messages come in, verified and parsed. Answers go out through the outbox."""
