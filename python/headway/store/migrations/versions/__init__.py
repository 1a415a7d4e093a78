"""One module a schema. A released one is never edited."""
