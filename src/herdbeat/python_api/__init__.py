"""The documented names as a Python API: small functions over the pure rooms."""
