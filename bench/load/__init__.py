"""How fast is it here? The real engine on a store of its own, measured; for `herdbeat bench` and for `bench/`."""
