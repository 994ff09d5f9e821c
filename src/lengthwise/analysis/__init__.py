"""What models do with positions: attention and hidden states recorded, compared, probed; two theorems as weights."""
