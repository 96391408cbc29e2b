"""The other tasks of the paper: tagging, pairs of texts, probes, and its tables."""
