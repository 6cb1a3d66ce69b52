"""Vocabularies as checkpoints ship them, read into a `tokenizers.Tokenizer`: a file here for each kind of file."""
