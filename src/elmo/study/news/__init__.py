"""A corpus of our own making: invented news in four classes, with the senses of ambiguous words."""
