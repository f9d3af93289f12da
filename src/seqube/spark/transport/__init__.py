"""What travels between Spark and the engine, and how it is packed: columns, blobs of rows, numbers folded into one array."""
