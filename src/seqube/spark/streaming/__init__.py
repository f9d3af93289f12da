"""Streams over Spark: what a bucket remembers between micro-batches, pipeline files, and the checkpoint that one of them owns."""
