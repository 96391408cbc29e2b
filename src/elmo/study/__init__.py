"""The study: every embedding on the same text, with the same classifier, in one report."""
