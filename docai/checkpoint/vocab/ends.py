"""The tokens that a tokenizer puts around a text."""

from __future__ import annotations

from tokenizers import Tokenizer, processors


def surround(tokenizer: Tokenizer, before: str | None, after: str | None) -> None:
    """Lets `tokenizer` put BOS before a text and EOS after it, where they are given; both must be tokens of it."""
    around = [token for token in (before, after) if token]
    single = " ".join(part for part in (before, "$A", after) if part)
    ids = [(token, tokenizer.token_to_id(token)) for token in around]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=ids)
