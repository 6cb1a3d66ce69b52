"""Whether a model fits into memory beside those that are there."""

from __future__ import annotations

from docai.checkpoint.backend import total_memory
from docai.checkpoint.hub import cached, locate
from docai.errors import DocaiError

_WEIGHTS = (".safetensors", ".gguf")
_SHARE = 0.9  # of the memory that there is, as in the engine


def weights_size(source: str) -> int:
    """Bytes of a checkpoint's weights as they are stored; 0 where it is not on this machine yet."""
    try:
        place = locate(source)
        path = place.path or cached(place)
    except DocaiError:  # loading it will tell
        return 0
    if path is None:
        return 0
    files = [path] if path.is_file() else path.iterdir()
    return sum(file.stat().st_size for file in files if file.suffix in _WEIGHTS)


def fits(source: str) -> bool:
    """Whether its weights go into what is left of the memory, as far as that can be told before loading them."""
    import mlx.core as mx

    return int(mx.get_active_memory()) + weights_size(source) <= _SHARE * total_memory()
