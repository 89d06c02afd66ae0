"""Simulation: a fleet on a moved clock, with the real claim, evaluation and completion over a ledger of its own."""
