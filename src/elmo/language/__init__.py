"""The language model put to use: evaluate, score, predict, generate."""
