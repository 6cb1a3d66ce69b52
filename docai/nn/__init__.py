"""Blocks of neural networks, on MLX. They know no model family; each has a frozen spec beside it."""
