"""The embeddings ELMo is compared with: a vector a word, whatever stands around it."""
