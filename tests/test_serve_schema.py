"""The description of the interface, taken at its word: nothing that it allows, or nearly so, makes the server fail."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("mlx.core")
schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402

from tests.crowd import URI  # noqa: E402
from tests.serving import Served, served  # noqa: E402
from tests.tiny_checkpoint import tiny_qwen2_vl  # noqa: E402

CAPS = {"max_tokens": 8, "max_completion_tokens": 8, "max_output_tokens": 8, "n": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    tiny_qwen2_vl(folder / "sees")
    with served(folder / "state", model=[str(folder / "sees")], max_queue_depth=200, max_tokens=8) as running:
        yield running


def bounded(body: Any) -> Any:
    """The same request, but for how much is generated; where a document can be, often one that can be read."""
    if not isinstance(body, dict):
        return body
    for name, most in CAPS.items():
        if isinstance(body.get(name), int | float) and body[name] > most:
            body[name] = most
    if "document" in body and len(json.dumps(body, default=repr)) % 2:
        body["document"] = URI
    return body


def test_every_route_by_its_description(server: Served) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    statuses: Counter[int] = Counter()
    routes = []
    for found in schema.get_all_operations():
        operation = found.ok()
        routes.append(operation.label)
        if operation.label == "PATCH /v1/settings":  # it would change the server for all others
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=4,
                phases=(Phase.generate,),
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            def check(case: Any) -> None:
                case.body = bounded(case.body)
                response = case.call(timeout=60)
                statuses[response.status_code] += 1
                assert response.status_code < 500, (response.status_code, response.text, case.as_curl_command())
                assert response.headers.get("x-request-id"), case.as_curl_command()

            with contextlib.suppress(Unsatisfiable):  # it takes nothing that could be wrong
                check()
    assert len(routes) > 30
    assert statuses[200] > 15
    assert sum(statuses.values()) > 150
    assert server.json("GET", "/health")["status"] == "ok"
