"""Regions of a page and their reading order."""
