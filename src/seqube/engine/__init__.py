"""Physical plans and batches become matches and aggregates."""
