"""Cron for AI agents and HTTP endpoints that can always tell you why."""
