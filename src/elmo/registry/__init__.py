"""Public ELMo models by name: what there is, where it is, how it gets here."""
