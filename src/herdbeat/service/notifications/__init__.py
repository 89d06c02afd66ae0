"""Notifications: the conditions of the fleet, and the worker that reports them to channels."""
