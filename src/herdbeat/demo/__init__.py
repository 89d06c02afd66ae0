"""The fleet of `herdbeat up --demo`, which needs no key, account or file. No other fleet uses this package."""
