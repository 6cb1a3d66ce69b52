"""Text of a page, and how lines and regions become blocks, tables and documents."""
