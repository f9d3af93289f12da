"""NEXT and STRICT: one run for each start."""
