"""Lists that clients take page by page, as OpenAI's do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def page_of(oldest_first: Sequence[dict[str, Any]], limit: int, after: str | None, order: str) -> dict[str, Any]:
    """A page of things with ids; `after` is the last one of the page before, `order` is `asc` or `desc`."""
    wanted = list(oldest_first if order == "asc" else reversed(oldest_first))
    if after is not None:
        places = [place for place, one in enumerate(wanted, 1) if one["id"] == after]
        wanted = wanted[places[0] :] if places else []
    some = wanted[:limit]
    ids = [one["id"] for one in some] or [None]
    more = len(wanted) > len(some)
    return {"object": "list", "data": some, "first_id": ids[0], "last_id": ids[-1], "has_more": more}
