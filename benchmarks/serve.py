"""The server under load, with a tiny random model: what HTTP costs, and whether anything is left behind.

python benchmarks/serve.py latency            # milliseconds of a request, and of a streamed token
python benchmarks/serve.py soak [SECONDS]     # 64 clients doing everything; memory, descriptors, files, tasks
"""

from __future__ import annotations

import concurrent.futures
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.crowd import SHORT, Crowd, descriptors, idle, left_over, resident
from tests.serving import Served, served
from tests.tiny_checkpoint import tiny_qwen2_vl


def latency(server: Served) -> None:
    connection = server.connection()

    def asked(method: str, path: str, body: object = None) -> float:
        data = None if body is None else json.dumps(body).encode()
        began = time.perf_counter()
        connection.request(method, path, data, {"content-type": "application/json"})
        connection.getresponse().read()
        return (time.perf_counter() - began) * 1000

    def alone() -> float:
        """The same question to the model itself."""
        began = time.perf_counter()
        model.generate("Hi", max_tokens=1, loop_guard=False)
        return (time.perf_counter() - began) * 1000

    (offered,) = server.desk.models.loaded
    model = offered.model
    assert model is not None
    one, many = {**SHORT, "max_tokens": 1}, {**SHORT, "max_tokens": 200, "loop_guard": False}
    for name, times in {
        "GET /livez": [asked("GET", "/livez") for _ in range(500)],
        "a chat request of one token": [asked("POST", "/v1/chat/completions", one) for _ in range(300)],
        "the same without HTTP": [alone() for _ in range(300)],
    }.items():
        print(f"{name}: median {statistics.median(times):.2f} ms")
    whole = statistics.median(asked("POST", "/v1/chat/completions", many) for _ in range(15))
    streamed = statistics.median(asked("POST", "/v1/chat/completions", {**many, "stream": True}) for _ in range(15))
    print(f"200 tokens: {whole:.1f} ms whole, {streamed:.1f} ms streamed: {(streamed - whole) / 200:.3f} ms a token")


def soak(server: Served, seconds: float) -> None:
    crowd = Crowd(server)
    crowd.client(0, time.monotonic() + 5)
    idle(server, 20)
    print(f"begins with {resident():.0f} MB, {descriptors()} descriptors, {len(server.desk._tasks)} tasks")
    ends = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        clients = [pool.submit(crowd.client, number, ends) for number in range(1, 65)]
        while time.monotonic() < ends:
            time.sleep(min(20, max(0.1, ends - time.monotonic())))
            print(f"  {len(crowd.statuses)} requests, {resident():.0f} MB, {descriptors()} descriptors")
        for client in clients:
            client.result()
    idle(server, 30)
    while any(server.desk.store.counts()[state] for state in ("queued", "running")):
        time.sleep(0.1)
    print(f"ends with {resident():.0f} MB, {descriptors()} descriptors, {len(server.desk._tasks)} tasks")
    print(f"files left over: {len(left_over(server))}; places taken: {server.desk.pages.room.taken}")
    print(f"statuses: {dict(Counter(crowd.statuses))}; jobs: {server.desk.store.counts()}")


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "latency"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_qwen2_vl(folder / "sees")
        with served(folder / "state", model=[str(folder / "sees")], max_queue_depth=16, max_body=1 << 20) as server:
            server.json("POST", "/v1/chat/completions", SHORT)
            if what == "soak":
                soak(server, float(sys.argv[2]) if len(sys.argv) > 2 else 120)
            else:
                latency(server)


if __name__ == "__main__":
    main()
