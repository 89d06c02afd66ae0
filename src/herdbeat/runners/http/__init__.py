"""Runs HTTP endpoints, with a guard that limits which addresses they may reach."""
