"""Training, testing, storing: the laboratory."""
