"""Labelled texts become a classifier, which labels other texts and says how sure it is."""
