"""ELMo inside other people's libraries. Each module needs the extra that bears its name."""
