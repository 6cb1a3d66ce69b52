"""Goldens of clip processors."""
