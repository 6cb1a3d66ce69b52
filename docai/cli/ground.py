"""What `docai ground` does: JSON lines, well-known text, or pictures with what was found drawn in."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from docai.batch.outputs import check_writable, write_whole
from docai.cli.answers import loaded
from docai.cli.output import is_terminal, put
from docai.cli.progress import Reporter
from docai.errors import DocaiError, ExitCode, UsageError
from docai.render.inputs import InputFile, expand
from docai.tasks.chat import remarks
from docai.tasks.ground import Grounded, clean, grounded
from docai.tasks.options import GroundModelOptions, GroundOptions, GroundOutputOptions, PictureOptions
from docai.vlm.request import GenerationOptions

if TYPE_CHECKING:
    from docai.vlm.model import Model


def run_ground(
    image: str,
    phrases: Sequence[str],
    asked: GroundOptions,
    output: GroundOutputOptions,
    pictures: PictureOptions,
    model: GroundModelOptions,
    options: GenerationOptions,
    *,
    quiet: bool,
    verbose: int,
) -> int:
    """The exit code: 1 where some pages could not be read. Raises DocaiError where nothing could be done."""
    reporter = Reporter("auto", quiet=quiet, verbose=verbose)
    with reporter.heard():
        file = _one_file(image, pictures)
        _check_output(output)
        phrases = clean(phrases)
        _ = model.chosen
        ready = loaded(model, reporter)
        return Run(ready, asked, output, pictures, options, reporter).file(file, phrases)


def _one_file(image: str, pictures: PictureOptions) -> InputFile:
    files = list(expand([image], max_bytes=pictures.max_bytes))
    if len(files) != 1:
        raise UsageError(f"expected one picture or document; {image} names {len(files)}")
    return files[0]


def _check_output(output: GroundOutputOptions) -> None:
    if output.output != "-":
        check_writable(Path(output.output).absolute().parent)
    elif output.format == "png" and is_terminal():
        raise UsageError("png goes into a file: name one with -o")


class Run:
    """Looks for things in one file."""

    def __init__(
        self,
        model: Model,
        asked: GroundOptions,
        output: GroundOutputOptions,
        pictures: PictureOptions,
        options: GenerationOptions,
        reporter: Reporter,
    ) -> None:
        self._model, self._asked, self._output = model, asked, output
        self._pictures, self._options, self._reporter = pictures, options, reporter

    def file(self, file: InputFile, phrases: Sequence[str]) -> int:
        """The exit code of a file: that of its error where no page could be read, 1 where some could not."""
        codes: list[int] = []

        def failed(error: DocaiError) -> None:
            codes.append(int(error.exit_code))
            self._reporter.error(str(error))

        found = grounded(
            self._model, file, phrases, self._asked, self._pictures, self._options, on_error=failed
        )  # fmt: skip
        pages = list(self._told(found))
        if pages and (self._output.output != "-" or self._output.format == "png"):
            self._write(pages)
        return 0 if not codes else ExitCode.PARTIAL if pages else codes[0]

    def _told(self, pages: Iterator[Grounded]) -> Iterator[Grounded]:
        """The pages, each on standard output at once where it goes there as text."""
        for page in pages:
            for answer in page.generations:
                for remark in remarks(answer, self._options):
                    self._reporter.warn(f"{page.page.source}, page {page.page.index + 1}: {remark}")
            if self._output.output == "-" and self._output.format != "png":
                put(self._text(page))
            yield page

    def _text(self, page: Grounded) -> str:
        if self._output.format == "json":
            return json.dumps(page.as_json(self._model.name), ensure_ascii=False) + "\n"
        return "".join(f"{one.wkt}\t{one.phrase or one.label}\n" for one in page.found)

    def _write(self, pages: Sequence[Grounded]) -> None:
        data = drawn(pages, self._pictures.dpi) if self._output.format == "png" else "".join(map(self._text, pages))
        if self._output.output == "-":
            put(data)
        else:
            write_whole(Path(self._output.output), data if isinstance(data, bytes) else data.encode())


def drawn(pages: Sequence[Grounded], dpi: int) -> bytes:
    """Pages with what was found on them as one PNG."""
    from docai.export.overlay import draw, stacked

    buffer = io.BytesIO()
    stacked([draw(page.page, page.regions(), dpi) for page in pages]).save(buffer, "PNG")
    return buffer.getvalue()
