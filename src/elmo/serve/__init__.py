"""`elmo serve`: an HTTP server of models, and a page to look into them."""
