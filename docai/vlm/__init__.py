"""Vision-language models: a family is data, the blocks are shared."""

from docai.checkpoint.backend import preload_blas

preload_blas()  # before any module here imports MLX
