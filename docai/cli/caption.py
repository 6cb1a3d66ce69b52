"""What `docai caption` does with its files: a caption for each picture, as text or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from docai.cli.answers import loaded
from docai.cli.inputs import files_of, names_many
from docai.cli.output import put
from docai.cli.progress import Reporter
from docai.errors import ExitCode, InputError
from docai.render.inputs import InputFile, expand
from docai.tasks.caption import Caption, captions_of
from docai.tasks.chat import remarks
from docai.tasks.options import CaptionOptions, ModelOptions, PictureOptions
from docai.vlm.request import GenerationOptions

if TYPE_CHECKING:
    from docai.vlm.model import Model


def run_caption(
    inputs: Sequence[str],
    asked: CaptionOptions,
    pictures: PictureOptions,
    model: ModelOptions,
    options: GenerationOptions,
    *,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """The exit code: 1 where some pictures could not be read. Raises DocaiError where nothing could be done."""
    reporter = Reporter("auto", quiet=quiet, verbose=verbose)
    with reporter.heard():
        many = names_many(inputs)
        _ = model.chosen, options.schema()
        files, missing = files_of(inputs, pictures) if many else (expand(inputs, max_bytes=pictures.max_bytes), [])
        for row in missing:
            reporter.error(row.reasons[0])
        run = Run(loaded(model, reporter), asked, pictures, options, reporter, as_json=as_json, named=many)
        codes = [row.exit_code for row in missing] + run.files(files, raises=not many)
    return codes[0] if not many else ExitCode.PARTIAL if any(codes) else ExitCode.OK


class Run:
    """Captions files, several pictures at once, and prints what they show in their order."""

    def __init__(
        self,
        model: Model,
        asked: CaptionOptions,
        pictures: PictureOptions,
        options: GenerationOptions,
        reporter: Reporter,
        *,
        as_json: bool,
        named: bool,
    ) -> None:
        self._model, self._asked, self._pictures, self._options = model, asked, pictures, options
        self._reporter, self._json, self._named = reporter, as_json, named

    def files(self, files: Sequence[InputFile], *, raises: bool) -> list[int]:
        """The exit code of each file: that of its error where no picture could be read, 1 where some could not.

        `raises`: there is only one, and what is wrong with more than its pictures is raised.
        """
        done = [0] * len(files)
        codes: list[list[int]] = [[] for _ in files]
        places = {id(file): place for place, file in enumerate(files)}
        for file, caption in captions_of(self._model, files, self._asked, self._pictures, self._options):
            place = places[id(file)]
            if isinstance(caption, Caption):
                done[place] += 1
                self._put(caption)
            elif raises and not isinstance(caption, InputError):
                raise caption
            else:
                codes[place].append(int(caption.exit_code))
                self._reporter.error(str(caption))
        return [0 if not own else ExitCode.PARTIAL if some else own[0] for own, some in zip(codes, done, strict=True)]

    def _put(self, caption: Caption) -> None:
        if self._json:
            put(json.dumps(caption.as_json(self._model.name), ensure_ascii=False) + "\n")
            return
        page = f", page {caption.page + 1}" if caption.pages > 1 else ""
        put(f"{caption.source}{page}: {caption.text}\n" if self._named or page else f"{caption.text}\n")
        for remark in remarks(caption.generation, self._options):
            self._reporter.warn(f"{caption.source}{page}: {remark}")
