"""Models on disk or on the hub: their files, their names, and how they become the weights of a module."""
