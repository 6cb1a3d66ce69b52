"""What docai can do: one module per task, with its options and its run function."""
