"""What the server counts, as Prometheus reads it: `docai_` and, where vLLM counts the same, its name."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping

from docai.vlm.request import Generation

Labels = tuple[tuple[str, str], ...]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_TOKEN_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5)

COUNTERS = {
    "prompt_tokens_total": "Tokens of prompts.",
    "prefix_cache_queries_total": "Tokens of prompts that were looked for in the cache.",
    "prefix_cache_hits_total": "Tokens of prompts that did not have to be read again.",
    "generation_tokens_total": "Tokens of answers.",
    "request_success_total": "Answers, by how they ended.",
    "loops_total": "Answers ended because they only repeated themselves.",
    "mm_cache_queries_total": "Images of prompts.",
    "mm_cache_hits_total": "Images of prompts that did not have to be encoded again.",
    "pages_total": "Pages read, by how they ended.",
    "regions_total": "Regions found on pages.",
    "http_requests_total": "Requests, by route and status.",
}
HISTOGRAMS = {
    "time_to_first_token_seconds": ("Seconds from a request to its first token.", _SECONDS),
    "inter_token_latency_seconds": ("Seconds from token to token, the mean of an answer.", _TOKEN_SECONDS),
    "e2e_request_latency_seconds": ("Seconds from a request to the end of its answer.", _SECONDS),
    "page_seconds": ("Seconds that reading a page took.", _SECONDS),
}
GAUGES = {
    "num_requests_running": "Answers and pages under way.",
    "num_requests_waiting": "Answers and pages that wait.",
    "http_requests_open": "Requests that have not been answered.",
    "models_loaded": "Models in memory.",
    "jobs": "Jobs, by how far they are.",
}


class Metrics:
    """Counters and histograms. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, dict[Labels, float]] = {name: defaultdict(float) for name in COUNTERS}
        self._sums: dict[str, float] = dict.fromkeys(HISTOGRAMS, 0.0)
        self._buckets: dict[str, list[int]] = {name: [0] * (len(said[1]) + 1) for name, said in HISTOGRAMS.items()}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        with self._lock:
            self._counts[name][tuple(sorted(labels.items()))] += amount

    def observe(self, name: str, value: float) -> None:
        edges = HISTOGRAMS[name][1]
        place = next((at for at, edge in enumerate(edges) if value <= edge), len(edges))
        with self._lock:
            self._sums[name] += value
            self._buckets[name][place] += 1

    def total(self, name: str) -> float:
        """The sum of a counter over its labels."""
        with self._lock:
            return sum(self._counts[name].values())

    def answered(self, answer: Generation) -> None:
        """An answer has ended."""
        usage, timings = answer.usage, answer.timings
        self.count("prompt_tokens_total", usage.prompt)
        self.count("prefix_cache_queries_total", usage.prompt)
        self.count("prefix_cache_hits_total", usage.reused)
        self.count("generation_tokens_total", usage.generated)
        self.count("mm_cache_hits_total", usage.cached_images)
        self.count("request_success_total", finished_reason=answer.finish_reason)
        self.count("loops_total", answer.finish_reason == "loop")
        if usage.generated:
            self.observe("time_to_first_token_seconds", timings.first_token_s)
            self.observe("e2e_request_latency_seconds", timings.first_token_s + timings.decode_s)
        if usage.generated > 1:
            self.observe("inter_token_latency_seconds", timings.decode_s / (usage.generated - 1))

    def text(self, gauges: Mapping[str, float | Mapping[str, float]]) -> str:
        """All of it in Prometheus' text format; `gauges` are the values of the moment."""
        return "\n".join([*self._counters(), *self._histograms(), *_gauges(gauges), ""])

    def _counters(self) -> Iterator[str]:
        for name, about in COUNTERS.items():
            yield from _head(name, about, "counter")
            with self._lock:
                values = dict(self._counts[name]) or {(): 0.0}
            yield from (f"docai_{name}{_labels(labels)} {value:g}" for labels, value in values.items())

    def _histograms(self) -> Iterator[str]:
        for name, (about, edges) in HISTOGRAMS.items():
            yield from _head(name, about, "histogram")
            with self._lock:
                buckets, total = list(self._buckets[name]), self._sums[name]
            so_far = 0
            for edge, number in zip((*map(str, edges), "+Inf"), buckets, strict=True):
                so_far += number
                yield f'docai_{name}_bucket{{le="{edge}"}} {so_far}'
            yield f"docai_{name}_sum {total:.6f}"
            yield f"docai_{name}_count {so_far}"


def _gauges(values: Mapping[str, float | Mapping[str, float]]) -> Iterator[str]:
    for name, value in values.items():
        yield from _head(name, GAUGES[name], "gauge")
        if isinstance(value, Mapping):
            yield from (f"docai_{name}{_labels((('state', state),))} {number:g}" for state, number in value.items())
        else:
            yield f"docai_{name} {value:g}"


def _head(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP docai_{name} {about}"
    yield f"# TYPE docai_{name} {kind}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = ((name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in labels)
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"
