"""Models that come and go, engines that break, what is counted, and settings that change while it runs."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import io
import threading
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")

from PIL import Image

from docai.serve import desk, jobs, memory
from tests.crowd import LONG, SHORT, URI
from tests.serving import Served, served
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl
from tests.tiny_encdec import tiny_florence2


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_qwen2_vl(folder / "sees")
    tiny_llama(folder / "text")
    return folder


def unloaded(server: Served) -> None:
    """Wait until no model is in memory."""
    deadline = time.monotonic() + 30
    while server.desk.models.loaded:
        assert time.monotonic() < deadline, "it stays in memory"
        time.sleep(0.05)


def test_models_make_room_for_each_other(models: Path, tmp_path: Path) -> None:
    names = [str(models / "sees"), str(models / "text")]
    with served(tmp_path / "state", model=names) as server:
        for name in ("sees", "text", "sees"):
            assert server.json("POST", "/v1/chat/completions", {**SHORT, "model": name})["model"] == name
            loaded = [one["id"] for one in server.json("GET", "/v1/models")["data"] if one["loaded"] and one["created"]]
            assert loaded == [name]
        server.json("PATCH", "/v1/settings", {"keep_alive": "0.3s"})
        unloaded(server)
        assert server.json("GET", "/health")["status"] == "ok"


def test_models_make_room_where_memory_is_short(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(models / "sees"), str(models / "text")]
    size = sum(file.stat().st_size for file in (models / "text").glob("*.safetensors"))
    assert memory.weights_size(names[1]) == size > 0
    assert memory.weights_size(str(tmp_path / "none")) == memory.weights_size("nobody/nothing") == 0
    with served(tmp_path / "state", model=names, max_models=2) as server:

        def loaded() -> set[str]:
            return {one["id"] for one in server.json("GET", "/v1/models")["data"] if one["loaded"] and one["created"]}

        for total, expected in ((1 << 50, {"sees", "text"}), (size, {"text"})):
            monkeypatch.setattr(memory, "total_memory", lambda total=total: total)
            for one in server.desk.models.loaded:
                asyncio.run_coroutine_threadsafe(server.desk.models.unload(one), server.loop).result(10)
            for name in ("sees", "text"):
                server.json("POST", "/v1/chat/completions", {**SHORT, "model": name})
            assert loaded() == expected


def test_a_broken_engine_is_told_and_replaced(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "state", model=[str(models / "sees")]) as server:
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        (offered,) = server.desk.models.loaded
        assert offered.engine is not None
        offered.engine.close()
        assert server.json("GET", "/health", status=503)["broken"] == ["sees"]
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        assert server.json("GET", "/health")["broken"] == []


def test_a_job_waits_for_its_model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as another has the only place; whoever asks himself is told so at once."""
    monkeypatch.setattr(jobs, "_BUSY", 0.02)
    begun, over = threading.Event(), threading.Event()
    asked = {"document": URI, "model": "sees", "ocr": "force", "guard": "off", "max_tokens": 4}
    with served(tmp_path / "state", model=[str(models / "sees"), str(models / "text")]) as server:

        async def hold() -> None:
            async with server.desk.models.use("text"):
                begun.set()
                await asyncio.to_thread(over.wait, 60)

        held = asyncio.run_coroutine_threadsafe(hold(), server.loop)
        assert begun.wait(30)
        number = server.json("POST", "/v1/jobs", asked, 202)["id"]
        server.json("POST", "/v1/parse", asked, 503)
        time.sleep(0.2)
        assert server.json("GET", f"/v1/jobs/{number}")["status"] in ("queued", "running")
        over.set()
        held.result(30)
        deadline = time.monotonic() + 60
        while (job := server.json("GET", f"/v1/jobs/{number}"))["status"] != "done":
            assert job["status"] in ("queued", "running"), job
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_what_hangs_is_told(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of an engine and a page that do not come to their end; nothing that waits for something to do."""
    monkeypatch.setattr(desk, "_HANGS", 0.1)
    held, over = threading.Event(), threading.Event()
    with served(tmp_path / "state", model=[str(models / "sees")], page_seconds=0.1) as server:
        assert server.ask("POST", "/v1/chat/completions", SHORT)[0].status == 200
        (offered,) = server.desk.models.loaded
        assert offered.engine is not None
        time.sleep(0.3)
        assert server.json("GET", "/health")["broken"] == []
        scheduler = offered.engine._worker.scheduler
        tick = scheduler.tick
        monkeypatch.setattr(scheduler, "tick", lambda: (held.set(), over.wait(30), tick()))
        page = asyncio.run_coroutine_threadsafe(server.desk.pages.do(lambda: over.wait(30)), server.loop)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.ask, "POST", "/v1/chat/completions", SHORT)
            assert held.wait(30)
            time.sleep(0.3)
            assert server.json("GET", "/health", status=503)["broken"] == ["pages", "sees"]
            over.set()
            assert answer.result(30)[0].status == 200
        assert page.result(30)
        monkeypatch.undo()
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
        assert set(statuses) <= {200, 500, 503}  # 503: came as the engine ended
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


STEMS = {
    "num_requests_running", "num_requests_waiting", "time_to_first_token_seconds", "inter_token_latency_seconds",
    "e2e_request_latency_seconds", "prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total",
    "prefix_cache_hits_total", "mm_cache_queries_total", "mm_cache_hits_total", "request_success_total",
}  # fmt: skip  # as vLLM calls the same


def test_what_is_counted_has_the_names_that_dashboards_know(server: Served) -> None:
    """Each family once, with its help and its type, as Prometheus' format has it."""
    picture = io.BytesIO()
    Image.new("RGB", (60, 60), "red").save(picture, "PNG")
    url = "data:image/png;base64," + base64.b64encode(picture.getvalue()).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What?"}]
    for _ in range(2):
        server.json("POST", "/v1/chat/completions", {**SHORT, "messages": [{"role": "user", "content": parts}]})
    server.json("POST", "/v1/parse", {"document": URI})
    response, data = server.ask("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = data.decode().splitlines()
    types = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(types) == len(set(types)) == sum(line.startswith("# HELP ") for line in lines)
    assert {f"docai_{stem}" for stem in STEMS} <= set(types)
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    for name in values:
        assert any(name.startswith(kind) for kind in types), name
    assert values["docai_prefix_cache_hits_total"] > 0
    assert values["docai_mm_cache_queries_total"] > values["docai_mm_cache_hits_total"] > 0
    assert values['docai_request_success_total{finished_reason="length"}'] >= 2
    assert values["docai_regions_total"] > 0
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds"):
        assert values[f'docai_{name}_bucket{{le="+Inf"}}'] == values[f"docai_{name}_count"] > 0
        assert values[f"docai_{name}_sum"] > 0


def test_what_the_server_can_do(models: Path, tmp_path: Path) -> None:
    tiny_florence2(tmp_path / "florence")
    watches = find_spec("av") is not None
    names = [*(str(models / name) for name in ("sees", "text")), str(tmp_path / "florence")]
    with served(tmp_path / "state", model=names) as s:
        assert s.json("GET", "/props")["modalities"] == dict.fromkeys(("text", "vision", "audio", "video"), False)
        for name, vision, video in (("sees", True, watches), ("text", False, False), ("florence", True, False)):
            s.json("POST", "/v1/caption", {"model": name, "document": URI}, 200 if vision else 400)
            said = s.json("GET", "/props")
            assert (said["model"], said["key_needed"]) == (name, False)
            assert said["modalities"] == {"text": True, "vision": vision, "audio": False, "video": video}, name


def test_limits_change_while_it_runs(models: Path, tmp_path: Path) -> None:
    with served(tmp_path / "state") as server:
        server.json("POST", "/v1/parse", {"document": URI})
        said = server.json("PATCH", "/v1/settings", {"max_bytes": 10, "page_seconds": 30, "max_pages": 0})
        assert (said["applied"], said["reload_kinds"]) == ({"max_bytes": 10, "page_seconds": 30.0}, [])
        assert [one["name"] for one in said["rejected"]] == ["max_pages"]
        server.json("POST", "/v1/parse", {"document": URI}, 413)
        server.json("PATCH", "/v1/settings", {"op": "replace", "values": {}})
        server.json("POST", "/v1/parse", {"document": URI})


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


def test_prompts_are_kept_beyond_the_server(models: Path, tmp_path: Path) -> None:
    blocks = tmp_path / "blocks"

    def files() -> list[Path]:
        return list(blocks.glob("*/*.safetensors"))

    def served_once(**options: Any) -> dict[str, Any]:
        with served(tmp_path / "state", model=[str(models / "text")], prefix_disk=str(blocks), **options) as server:
            server.json("POST", "/v1/chat/completions", {**SHORT, "model": "text"})
            said: dict[str, Any] = server.json("GET", "/v1/cache/stats")
            while server.json("GET", "/v1/cache/stats")["models"]["text"]["prefix"]["disk_pending_bytes"]:
                time.sleep(0.01)
            if options:
                server.json("POST", "/v1/cache/reset?disk=true")
            return said

    first, again = served_once(), served_once()
    assert first["tiers"] == ["memory", "disk"]
    assert first["models"]["text"]["prefix"]["disk_hits"] == 0
    assert again["models"]["text"]["prefix"]["disk_hits"] > 0
    assert files()
    last = served_once(prefix_cache=0)
    assert (last["enabled"], last["tiers"]) == (True, ["disk"])
    assert last["models"]["text"]["prefix"]["disk_hits"] > 0
    assert files() == []
