"""Raw files become documents, tokens, ids and batches."""
