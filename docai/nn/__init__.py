"""Blocks of neural networks, on MLX. They know no model family; each has a frozen spec beside it."""

from docai.checkpoint.backend import preload_blas

preload_blas()  # before any module here imports MLX
