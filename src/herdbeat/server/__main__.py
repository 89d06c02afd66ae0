"""`python -m herdbeat.server`: the server process. `herdbeat up` and `herdbeat serve` start it, and write its spec."""

from herdbeat.server.process import main

if __name__ == "__main__":
    main()
