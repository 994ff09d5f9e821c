"""How the positional part of each family of models in `transformers` is swapped; one family a file."""
