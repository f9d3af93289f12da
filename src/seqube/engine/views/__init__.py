"""Nested queries as published: outer first, with and without views of the results of sub-queries."""
