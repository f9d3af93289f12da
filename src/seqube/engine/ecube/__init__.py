"""Many queries at different levels of detail, computed from the matches of one another."""
