"""Measurements: workloads, the reference loops they are held against, and one runner for all of them."""
