"""A Document as a file: one module per format."""
