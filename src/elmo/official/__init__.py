"""Models of other makers: official ELMo weights are read, written, converted and verified."""
