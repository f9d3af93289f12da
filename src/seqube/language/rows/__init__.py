"""Row patterns: SQL's MATCH_RECOGNIZE clause, from its text to a bound tree."""
