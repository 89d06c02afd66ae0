"""Runs as Jobs of a Kubernetes cluster, over its REST interface."""
