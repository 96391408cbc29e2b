"""What a study found becomes a page to read, a PDF to print, and a file of all its figures."""
