"""Telling people and programs: what is sent, to which kind of receiver, and when it matters."""
