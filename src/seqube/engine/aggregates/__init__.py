"""COUNT, SUM, AVG, MIN and MAX over matches: by building them, by counting prefixes, for one query and for many."""
