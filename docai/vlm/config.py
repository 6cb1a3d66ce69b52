"""A checkpoint's config.json; families are its only readers here."""

from docai.checkpoint.config import Config as Config
