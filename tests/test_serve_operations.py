"""Models that come and go, engines that break, what is counted, and settings that change while it runs."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from tests.crowd import LONG, SHORT, URI
from tests.serving import Served, served
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_qwen2_vl(folder / "sees")
    tiny_llama(folder / "text")
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Served]:
    with served(models / "state", model=[str(models / "sees")], max_body=1 << 20, max_queue_depth=4) as running:
        yield running


def unloaded(server: Served) -> None:
    """Wait until no model is in memory."""
    deadline = time.monotonic() + 5
    while server.desk.models.loaded:
        assert time.monotonic() < deadline, "it stays in memory"
        time.sleep(0.05)


def test_models_make_room_for_each_other(models: Path, tmp_path: Path) -> None:
    names = [str(models / "sees"), str(models / "text")]
    with served(tmp_path / "state", model=names, keep_alive="0.3s") as server:
        for name in ("sees", "text", "sees"):
            assert server.json("POST", "/v1/chat/completions", {**SHORT, "model": name})["model"] == name
            loaded = [one["id"] for one in server.json("GET", "/v1/models")["data"] if one["loaded"] and one["created"]]
            assert loaded == [name]
        unloaded(server)
        assert server.json("GET", "/health")["status"] == "ok"


def test_a_broken_engine_is_told_and_replaced(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "state", model=[str(models / "sees")]) as server:
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        (offered,) = server.desk.models.loaded
        assert offered.engine is not None
        offered.engine.close()
        assert server.json("GET", "/health", status=503)["broken"] == ["sees"]
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        assert server.json("GET", "/health")["broken"] == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("step", ["_read_prompts", "_join", "_admit"])
def test_nobody_is_left_waiting_when_the_engine_s_thread_ends(
    models: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they wait, are read, have been read or are being answered: all are told, and the next one is answered."""
    with served(tmp_path / "state", model=[str(models / "sees")]) as server:
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        (offered,) = server.desk.models.loaded
        assert offered.engine is not None
        scheduler = offered.engine._worker.scheduler
        whole = getattr(scheduler, step)
        some = threading.Event()

        def fails() -> None:
            whole() if step == "_admit" else None
            if some.is_set() or len(scheduler.running) + len(scheduler.queue) >= 12:
                some.set()
                raise SystemError("a mistake of ours")
            whole() if step != "_admit" else None

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(server.ask, "POST", "/v1/chat/completions", LONG) for _ in range(16)]
            monkeypatch.setattr(scheduler, step, fails)
            statuses = Counter(one.result(30)[0].status for one in asked)
        assert statuses[500] >= 12
        assert set(statuses) <= {200, 500}
        assert offered.room.taken == 0
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        assert server.json("GET", "/health")["status"] == "ok"


def test_metrics_tell_what_happened(server: Served) -> None:
    def number(name: str) -> float:
        text = server.ask("GET", "/metrics")[1].decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"docai_{name}"))

    before = number("generation_tokens_total"), number("pages_total"), number("time_to_first_token_seconds_count")
    server.ask("POST", "/v1/chat/completions", SHORT)
    server.ask("POST", "/v1/parse", {"document": URI})
    after = number("generation_tokens_total"), number("pages_total"), number("time_to_first_token_seconds_count")
    assert [b - a for a, b in zip(before, after, strict=True)] == [4, 1, 1]
    assert number("num_requests_running") == 0


def test_settings_change_while_it_runs(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "state", model=[str(models / "sees")]) as server:

        def change(values: Any, status: int = 200) -> Any:
            return server.json("PATCH", "/v1/settings", values, status)

        def tokens() -> int:
            body = {"messages": LONG["messages"], "loop_guard": False}
            return int(server.json("POST", "/v1/chat/completions", body)["usage"]["completion_tokens"])

        first = server.json("GET", "/v1/settings")
        assert {knob["name"] for knob in first["schema"]} == set(first["current"])
        said = change({"max_tokens": 5, "max_images": 0, "nonsense": 1, "vision_cache_size": "x", "thinking": "maybe"})
        assert said["applied"] == {"max_tokens": 5}
        assert {one["name"] for one in said["rejected"]} == {"max_images", "nonsense", "vision_cache_size", "thinking"}
        assert (said["reload_kinds"], said["fingerprint"]) == ([], first["fingerprint"])
        assert tokens() == 5
        (offered,) = server.desk.models.loaded
        model = offered.model
        assert change({"vision_cache_size": 3, "prefix_cache": 0, "dtype": None})["reload_kinds"] == []
        assert tokens() == 5
        assert offered.model is model
        assert model is not None
        assert (model.feature_size, model.engine.store.budget) == (3, 0)
        said = change({"dtype": "bfloat16"})
        assert said["reload_kinds"] == ["text_generation", "vision"]
        assert said["fingerprint"] != first["fingerprint"]
        assert tokens() == 5
        assert offered.model is not model
        said = change({"op": "replace", "values": {"max_tokens": 2}})
        assert said["current"] == {**first["current"], "max_tokens": 2}
        assert change({"max_tokens": None})["current"]["max_tokens"] is None
        change({"op": "delete", "values": {}}, 400)
        change([], 422)
        assert change({"keep_alive": "0.2s"})["applied"] == {"keep_alive": "0.2s"}
        unloaded(server)


def test_what_models_keep(server: Served) -> None:
    for _ in range(2):
        server.json("POST", "/v1/chat/completions", SHORT)
    kept = server.json("GET", "/v1/cache/stats")["models"]["sees"]
    assert kept["prefix"]["lookups_hit"] > 0
    assert kept["prefix"]["resident_bytes"] > 0
    assert server.json("POST", "/v1/cache/reset")["status"] == "cleared"
    assert server.json("GET", "/v1/cache/stats")["models"]["sees"]["prefix"]["resident_bytes"] == 0
