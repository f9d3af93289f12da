"""Row patterns over a table: finding matches, and what is asked of their rows."""
