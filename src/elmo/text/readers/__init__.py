"""One reader a file format: each turns a file into rows of named or numbered columns."""
