"""Vision-language models: a family is data, the blocks are shared."""
