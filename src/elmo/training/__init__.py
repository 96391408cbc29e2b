"""Raw text in, a trained biLM in a folder out."""
