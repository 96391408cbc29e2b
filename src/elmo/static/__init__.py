"""Static word vectors, which ELMo is compared with: one vector per word."""
