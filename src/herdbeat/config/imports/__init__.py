"""Files of other schedulers, translated once into a fleet file of ours."""
