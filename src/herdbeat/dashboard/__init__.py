"""The dashboard: server-rendered pages over the same queries as the API. An adapter: it decides nothing."""
