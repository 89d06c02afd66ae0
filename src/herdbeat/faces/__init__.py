"""The faces: each translates between people or programs and the service, and decides nothing."""
