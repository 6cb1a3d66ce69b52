"""What an encoder-decoder model is asked, in ids."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """`prompt` is read behind the picture; `seed` is what the answer begins with, its start token aside."""

    prompt: tuple[int, ...] = ()
    seed: tuple[int, ...] = ()
