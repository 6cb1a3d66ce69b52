"""Many files: workers, a journal, resuming."""
