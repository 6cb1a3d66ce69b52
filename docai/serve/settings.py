"""`/v1/settings`: what can be changed of a running server; `/v1/cache`: what its models keep. In mlx-vlm's shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from docai.errors import UsageError
from docai.export.json import dumps
from docai.serve.desk import Desk, desk_of
from docai.serve.errors import ApiError, reply
from docai.serve.models import Offered
from docai.serve.options import ServeOptions
from docai.serve.route import Route

router = APIRouter(route_class=Route, tags=["operations"])

_ALL = ("text_generation", "vision")


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting. `automatic`: null stands for what the server began with. `reload`: kinds of models it reloads."""

    kind: type[int] | type[float] | type[str]
    automatic: bool = False
    reload: tuple[str, ...] = ()


KNOBS: Mapping[str, Knob] = {
    "max_tokens": Knob(int, True),
    "thinking": Knob(str),
    "thinking_budget": Knob(int, True),
    "max_queue_depth": Knob(int),
    "max_images": Knob(int),
    "keep_alive": Knob(str),
    "max_models": Knob(int),
    "max_bytes": Knob(int),
    "max_pages": Knob(int),
    "max_pixels": Knob(int),
    "page_seconds": Knob(float),
    "fetch_seconds": Knob(float),
    "video_fps": Knob(float),
    "video_max_frames": Knob(int),
    "vision_cache_size": Knob(int),
    "prefix_cache": Knob(int, True),
    "dtype": Knob(str, True, _ALL),
}


class Settings:
    """The settings of a running server, over its options as it began."""

    def __init__(self, options: ServeOptions) -> None:
        self._options, self._first = options, replace(options)

    def current(self) -> dict[str, Any]:
        return {name: getattr(self._options, name) for name in KNOBS}

    def fingerprint(self) -> str:
        """Tells the settings with which models are loaded from others."""
        loaded = {name: getattr(self._options, name) for name, knob in KNOBS.items() if knob.reload}
        return hashlib.sha256(dumps(loaded)).hexdigest()[:16]

    def change(self, op: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """Apply each value, or reject it, by itself. `replace` begins from what the server began with."""
        if op == "replace":
            for name in KNOBS:
                setattr(self._options, name, getattr(self._first, name))
        applied: dict[str, Any] = {}
        rejected: list[dict[str, str]] = []
        for name, value in values.items():
            try:
                applied[name] = self._set(name, value)
            except UsageError as error:
                rejected.append({"name": name, "reason": str(error)})
        return applied, rejected

    def _set(self, name: str, value: Any) -> Any:
        """Raises UsageError for a value that the option does not allow."""
        knob = KNOBS.get(name)
        if knob is None:
            raise UsageError("unknown setting")
        if value is None and knob.automatic:
            value = getattr(self._first, name)
        elif knob.kind is float and type(value) is int:
            value = float(value)
        elif type(value) is not knob.kind:
            raise UsageError(f"expected {knob.kind.__name__}{' or null' if knob.automatic else ''}")
        replace(self._options, **{name: value})  # which checks it
        setattr(self._options, name, value)
        return value


def schema(first: ServeOptions) -> list[dict[str, Any]]:
    """What settings there are."""
    declared = type(first).__dataclass_fields__
    return [
        {
            "name": name,
            "type": knob.kind.__name__ + ("_or_none" if knob.automatic else ""),
            "default": declared[name].default,
            "reload_kinds": list(knob.reload),
            "allowed": list(declared[name].metadata["choices"]) or None,
            "help": declared[name].metadata["help"],
        }
        for name, knob in KNOBS.items()
    ]


@router.get("/v1/settings")
async def settings(request: Request) -> Response:
    """The settings, and which there are."""
    desk = desk_of(request)
    known: Settings = request.app.state.settings
    said = {"schema": schema(desk.options), "current": known.current(), "fingerprint": known.fingerprint()}
    return reply(said)


@router.patch("/v1/settings")
async def change(asked: dict[str, Any], request: Request) -> Response:
    """Change settings, from the next request on. Models are loaded anew only where a value that they need is new."""
    desk = desk_of(request)
    known: Settings = request.app.state.settings
    op, values = _operation(asked)
    before = known.current()
    applied, rejected = known.change(op, values)
    after = known.current()
    changed = [name for name in KNOBS if before[name] != after[name]]
    kinds = sorted({kind for name in changed for kind in KNOBS[name].reload})
    _take_effect(desk, changed, anew=bool(kinds))
    said = {"op": op, "applied": applied, "rejected": rejected, "reload_kinds": kinds}
    return reply({**said, "fingerprint": known.fingerprint(), "current": after})


def _operation(asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Merge or replace, and the values: named so, or all that there is. Raises ApiError."""
    if "op" not in asked and "values" not in asked:
        return "merge", asked
    op, values = asked.get("op", "merge"), asked.get("values")
    if op not in ("merge", "replace") or not isinstance(values, dict):
        raise ApiError(400, "expected an op, merge or replace, and values, an object", param="op")
    return op, values


def _take_effect(desk: Desk, changed: list[str], *, anew: bool) -> None:
    """Caches change their size at once; models that have to be loaded anew are let go of once nobody asks them."""
    for offered in desk.models.loaded:
        offered.stale = offered.stale or anew
        if "prefix_cache" in changed and offered.engine is not None:
            offered.engine.store.budget = desk.options.prefix_cache << 20
        if "vision_cache_size" in changed and offered.model is not None:
            offered.model.feature_size = desk.options.vision_cache_size


# --- caches


@router.get("/v1/cache/stats")
async def stats(request: Request) -> Response:
    """What the loaded models keep of prompts and images."""
    desk = desk_of(request)
    return reply({**_tiers(desk), "models": {o.name: _kept(o) for o in desk.models.loaded}})


def _tiers(desk: Desk) -> dict[str, Any]:
    """Where what was read of prompts is kept."""
    tiers = {"memory": desk.options.prefix_cache > 0, "disk": desk.options.prefix_disk is not None}
    return {"enabled": any(tiers.values()), "tiers": [name for name, on in tiers.items() if on]}


def _kept(offered: Offered) -> dict[str, Any]:
    prefixes = {} if offered.engine is None else offered.engine.store.stats()
    model = offered.model
    if model is None:
        return {"prefix": prefixes}
    counts = model.feature_counts
    return {
        "prefix": prefixes,
        "vision": {"hits": counts.hits, "misses": counts.misses, "evictions": counts.evictions},
    }


@router.post("/v1/cache/reset")
async def reset(request: Request, *, disk: bool = False) -> Response:
    """Forget what was read of prompts and made of images; `disk`: of loaded models' blocks on disk, too."""
    desk = desk_of(request)
    for offered in desk.models.loaded:
        if offered.model is not None:
            await desk.compute.do(partial(offered.model.clear, disk=disk))
    return reply({**_tiers(desk), "status": "cleared"})
