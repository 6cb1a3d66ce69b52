"""Merges of vocabularies that list none: they follow from the tokens and the order in which tokens are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Token = TypeVar("Token", str, bytes)


def merges_of(ranks: Mapping[Token, float]) -> list[tuple[Token, Token]]:
    """All pairs of tokens that make a token, those of low rank first.

    `ranks` holds the tokens that may be merged; of two pairs that make tokens of one rank, the one with the shorter
    left part comes first.
    """
    ranked = [
        (rank, token, cut)
        for token, rank in ranks.items()
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    ranked.sort(key=lambda entry: (entry[0], entry[2]))
    return [(token[:cut], token[cut:]) for _, token, cut in ranked]
