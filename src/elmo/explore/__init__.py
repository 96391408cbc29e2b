"""What a model sees: words of a corpus in context, similarities, surprisal, contributions."""
