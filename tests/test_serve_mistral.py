"""`docai serve` to Mistral's own client as it is: uploads, signed addresses, OCR, annotations."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("mlx.core")
client_module = pytest.importorskip("mistralai.client")

from mistralai.client import errors  # noqa: E402

from tests.conftest import SAMPLES  # noqa: E402
from tests.serving import Served, scan, served  # noqa: E402
from tests.tiny_checkpoint import tiny_qwen2_vl  # noqa: E402

MODEL = "mistral-ocr-latest"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    tiny_qwen2_vl(folder / "sees")
    with served(folder / "state", model=[str(folder / "sees")], api_key=["one", "two"]) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with client_module.Mistral(api_key="one", server_url=server.url) as client:
        yield client


@pytest.fixture
def upload(client: Any, tiny_pdf: bytes) -> Any:
    return client.files.upload(file={"file_name": "tiny.pdf", "content": tiny_pdf}, purpose="ocr")


def uri(data: bytes, kind: str = "application/pdf") -> str:
    return f"data:{kind};base64," + base64.b64encode(data).decode()


def test_the_flow_of_its_guide(client: Any, upload: Any, tiny_pdf: bytes) -> None:
    """Upload, sign, read, delete."""
    assert (upload.filename, upload.size_bytes, upload.purpose) == ("tiny.pdf", len(tiny_pdf), "ocr")
    known = client.files.retrieve(file_id=upload.id)
    assert (known.id, known.deleted) == (upload.id, False)
    assert upload.id in [one.id for one in client.files.list().data]
    assert client.files.download(file_id=upload.id).read() == tiny_pdf
    signed = client.files.get_signed_url(file_id=upload.id, expiry=1)
    documents = [
        {"type": "document_url", "document_url": signed.url},
        {"type": "file", "file_id": upload.id},
        {"type": "document_url", "document_url": uri(tiny_pdf), "document_name": "tiny.pdf"},
    ]
    for document in documents:
        read = client.ocr.process(model=MODEL, document=document, include_image_base64=True)
        assert [page.index for page in read.pages] == [0, 1]
        assert [page.markdown.strip() for page in read.pages] == ["Hello world", "Second page"]
        assert (read.pages[0].dimensions.dpi, read.pages[0].dimensions.width) == (150, 625)
        assert (read.usage_info.pages_processed, read.model) == (2, MODEL)
    assert client.files.delete(file_id=upload.id).deleted
    with pytest.raises(errors.MistralError) as caught:
        client.files.retrieve(file_id=upload.id)
    assert caught.value.status_code == 404


@pytest.mark.parametrize(("pages", "indices"), [([1], [1]), ("0", [0]), ("0-1", [0, 1]), ("1,0", [0, 1])])
def test_pages(client: Any, tiny_pdf: bytes, pages: Any, indices: list[int]) -> None:
    document = {"type": "document_url", "document_url": uri(tiny_pdf)}
    assert [p.index for p in client.ocr.process(model=MODEL, document=document, pages=pages).pages] == indices


def test_pictures_tables_and_blocks(client: Any) -> None:
    document = {"type": "document_url", "document_url": uri((SAMPLES / "article.pdf").read_bytes())}
    more = {"table_format": "html", "extract_header": True, "extract_footer": True, "include_image_base64": True}
    read = client.ocr.process(model=MODEL, document=document, **more)
    for page in read.pages:
        pictures, tables = {one.id: one for one in page.images}, {one.id: one for one in page.tables}
        assert all(one.image_base64.startswith("data:image/png;base64,") for one in pictures.values())
        assert {b.table_id: b.content for b in page.blocks if b.type == "table"} == {
            n: tables[n].content for n in tables
        }
        assert {block.image_id for block in page.blocks if block.type == "image"} == set(pictures)
        assert all(block.top_left_x < block.bottom_right_x <= page.dimensions.width for block in page.blocks)
        places = [page.markdown.find(block.content) for block in page.blocks if block.type in ("text", "title")]
        assert sum(place >= 0 for place in places) > len(places) / 2  # what is joined over a border stands elsewhere
    kinds = {block.type for page in read.pages for block in page.blocks}
    assert {"title", "text", "table", "image", "caption"} <= kinds
    bare = client.ocr.process(model=MODEL, document=document, include_blocks=False)
    assert not any(page.blocks for page in bare.pages)


def test_how_sure_it_is(client: Any, tiny_pdf: bytes) -> None:
    picture = {"type": "image_url", "image_url": uri(scan(), "image/png")}
    (page,) = client.ocr.process(model=MODEL, document=picture, confidence_scores_granularity="block").pages
    scores = page.confidence_scores
    assert 0 < scores.minimum_page_confidence_score <= scores.average_page_confidence_score <= 1
    assert any(0 < block.confidence_scores.average_content_confidence_score <= 1 for block in page.blocks)
    document = {"type": "document_url", "document_url": uri(tiny_pdf)}  # a text layer, which is as it is
    pages = client.ocr.process(model=MODEL, document=document, confidence_scores_granularity="page").pages
    assert pages[0].confidence_scores is None
    with pytest.raises(errors.MistralError) as caught:
        client.ocr.process(model=MODEL, document=document, confidence_scores_granularity="word")
    assert caught.value.status_code == 422


def test_annotations(client: Any, tiny_pdf: bytes) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["letter", "bill"]}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "kind", "schema": schema}}
    document = {"type": "document_url", "document_url": uri(tiny_pdf)}
    read = client.ocr.process(model=MODEL, document=document, document_annotation_format=wanted)
    assert json.loads(read.document_annotation)["kind"] in ("letter", "bill")
    article = {"type": "document_url", "document_url": uri((SAMPLES / "article.pdf").read_bytes())}
    read = client.ocr.process(model=MODEL, document=article, bbox_annotation_format=wanted, image_limit=1)
    (picture,) = [one for page in read.pages for one in page.images]
    assert json.loads(picture.image_annotation)["kind"] in ("letter", "bill")
    assert read.document_annotation is None


def test_errors_are_those_of_the_client(client: Any, server: Served, upload: Any) -> None:
    document = {"type": "file", "file_id": upload.id}
    with (
        client_module.Mistral(api_key="two", server_url=server.url) as other,
        pytest.raises(errors.MistralError) as caught,
    ):
        other.ocr.process(model=MODEL, document=document)
    assert caught.value.status_code == 404
    with (
        client_module.Mistral(api_key="x", server_url=server.url) as nobody,
        pytest.raises(errors.MistralError) as caught,
    ):
        nobody.ocr.process(model=MODEL, document=document)
    assert caught.value.status_code == 401
    with pytest.raises(errors.MistralError) as caught:
        client.ocr.process(model="other", document=document)
    assert caught.value.status_code == 404


def test_models(client: Any) -> None:
    found = {model.id: model.capabilities for model in client.models.list().data}
    assert found["embedded"].ocr
    assert found["sees"].completion_chat
    assert client.models.retrieve(model_id="sees").id == "sees"


def test_chat(client: Any) -> None:
    asked = {"model": "sees", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 6}
    answer = client.chat.complete(**asked)
    text = "".join(event.data.choices[0].delta.content or "" for event in client.chat.stream(**asked))
    assert text == answer.choices[0].message.content
