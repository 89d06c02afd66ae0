"""Runners: one for each kind of target. This module stays empty, because the reaper's process imports it."""
