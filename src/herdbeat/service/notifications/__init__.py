"""Who is told what: the conditions of the fleet, and the worker that tells them."""
