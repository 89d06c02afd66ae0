"""The fleet of `herdbeat up --demo`: no key, no account, no file. Nothing here is used by any other fleet."""
