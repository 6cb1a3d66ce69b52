"""Pages of any documents in groups, whose questions a model is asked together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from docai.errors import DocaiError, InputError, UsageError
from docai.types import PageResult

if TYPE_CHECKING:
    from docai.ocr.prompted import Leaf, Pending
    from docai.render.document import Source
    from docai.tasks.ocr import Layout
    from docai.tasks.prompted import PromptedPages

T = TypeVar("T")
R = TypeVar("R")

_PIXELS = 512 << 20  # bytes of the pictures of a group: two groups are held at once


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A page that is to be read."""

    source: Source
    index: int
    layout: Layout | None = None

    def failed(self, error: DocaiError) -> PageResult:
        """Its result where it cannot be read."""
        from docai.tasks.ocr import failed

        return failed(self.source, self.index, error)


Prepared: TypeAlias = "tuple[Wanted, Leaf | DocaiError]"  # a page with what is known of it, or why nothing is


class PageGroup:
    """Pages whose questions are asked together. Where that goes wrong they are read one by one, so that only one fails.

    UsageErrors are raised: they are about the request, not about a page.
    """

    def __init__(self, pages: PromptedPages, prepared: Sequence[Prepared]) -> None:
        self._reader, self._wanted = pages.reader, [page for page, _ in prepared]
        self._started = time.perf_counter()
        self._errors = {n: one for n, (_, one) in enumerate(prepared) if isinstance(one, DocaiError)}
        self._leaves = {n: one for n, (_, one) in enumerate(prepared) if not isinstance(one, DocaiError)}
        self._find(pages)
        self._pending = self._begun()

    def _find(self, pages: PromptedPages) -> None:
        """Have the regions of all pages found; where that fails, page by page."""
        try:
            found = pages.with_regions(list(self._leaves.values()))
            self._leaves = dict(zip(self._leaves, found, strict=True))
        except UsageError:
            raise
        except DocaiError:
            for n, leaf in list(self._leaves.items()):
                try:
                    (self._leaves[n],) = pages.with_regions([leaf])
                except DocaiError as error:
                    self._errors[n] = error
                    del self._leaves[n]

    def _begun(self) -> Pending | None:
        try:
            return self._reader.begin(list(self._leaves.values()))
        except UsageError:
            raise
        except DocaiError:
            return None

    def results(self, on_progress: Callable[[], None]) -> Iterator[tuple[Wanted, PageResult]]:
        """The pages with their results, in order."""
        done = {n: self._wanted[n].failed(error) for n, error in self._errors.items()} | self._read(on_progress)
        seconds = round((time.perf_counter() - self._started) / len(self._wanted), 3)
        yield from ((page, replace(done[n], seconds=seconds)) for n, page in enumerate(self._wanted))

    def _read(self, on_progress: Callable[[], None]) -> dict[int, PageResult]:
        if self._pending is not None:
            try:
                results = self._pending.results(on_progress)
            except UsageError:
                raise
            except DocaiError as error:
                if len(self._leaves) == 1:
                    return {n: self._wanted[n].failed(error) for n in self._leaves}
            else:
                return {n: self._whole(n, result) for n, result in zip(self._leaves, results, strict=True)}
        return {n: self._by_itself(n, on_progress) for n in self._leaves}

    def _by_itself(self, number: int, on_progress: Callable[[], None]) -> PageResult:
        try:
            (result,) = self._reader.begin([self._leaves[number]]).results(on_progress)
        except UsageError:
            raise
        except DocaiError as error:
            return self._wanted[number].failed(error)
        return self._whole(number, result)

    def _whole(self, number: int, result: PageResult) -> PageResult:
        """A result; a page with a broken picture in which nothing was found has failed."""
        page, damage = self._wanted[number], self._leaves[number].content.damage
        if damage and not any(block.text.strip() for block in result.blocks):
            said = f"{page.source.name}, page {page.index + 1}: {damage}, and no text was found in them"
            return page.failed(InputError(f"{said}; get a whole copy of the file"))
        return result


def in_groups(prepared: Iterable[Prepared], most: int) -> Iterator[list[Prepared]]:
    """Up to `most` pages each, fewer where their pictures are large."""
    group, size = list[Prepared](), 0
    for page, leaf in prepared:
        own = 0 if isinstance(leaf, DocaiError) or leaf.pixels is None else leaf.pixels.nbytes
        if group and (len(group) == most or size + own > _PIXELS):
            yield group
            group, size = [], 0
        group.append((page, leaf))
        size += own
    if group:
        yield group


def in_order_by(items: Iterable[T], work: Callable[[T], R], threads: int) -> Iterator[tuple[T, R]]:
    """Items with what some work makes of them, in order; with several threads they work on the items to come."""
    if threads == 1:
        yield from ((item, work(item)) for item in items)
        return
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[tuple[T, Future[R]]] = deque()
        for item in items:
            ahead.append((item, pool.submit(work, item)))
            if len(ahead) > threads:
                first, done = ahead.popleft()
                yield first, done.result()
        yield from ((item, done.result()) for item, done in ahead)
