"""What a model is, as frozen data: `docai.vlm.families` make it from config.json, `docai.vlm.network` builds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docai.nn.attention import AttentionSpec
from docai.nn.golden import GoldenSpec
from docai.nn.mlp import MlpSpec
from docai.nn.moe import MoeSpec
from docai.nn.norm import NormKind
from docai.nn.per_layer import PerLayerSpec
from docai.nn.twofold import TwofoldSpec
from docai.vlm.connector import ConnectorSpec
from docai.vlm.hearing import HearingSpec
from docai.vlm.positions import MropeSpec, PlaneSpec
from docai.vlm.vision import VisionSpec


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A decoder layer. `sandwich`: the branches are normed before and behind (Gemma 2), otherwise before only.

    `parallel`: attention and feed-forward block see the same rows, normed once (Cohere). `scaled`: what comes out is
    multiplied by a number that was learned. `lender`: the layer whose keys and values it sees, in the place of its own.
    """

    attention: AttentionSpec
    mlp: MlpSpec | MoeSpec | TwofoldSpec
    sandwich: bool = False
    parallel: bool = False
    scaled: bool = False
    lender: int | None = None


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    """A causal decoder. `context`: the longest sequence that it was made for.

    `norm`: "layer" is a layer norm without a bias (Cohere). `bare_norm_eps`: the norms of the layers have no weight,
    and this epsilon. `golden`: the second part of each head is turned by places on a plane (see `docai.nn.golden`).
    `per_layer`: layers take in embeddings of their own (see `docai.nn.per_layer`).
    """

    dims: int
    vocabulary: int
    layers: tuple[LayerSpec, ...]
    context: int
    norm_eps: float = 1e-6
    norm: NormKind = "rms"
    tied: bool = False  # the head is the embedding
    embed_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    logit_cap: float | None = None
    bare_norm_eps: float | None = None
    golden: GoldenSpec | None = None
    per_layer: PerLayerSpec | None = None

    @property
    def keeping(self) -> list[AttentionSpec]:
        """The attention of each layer that has a cache: those that see another one's keys have none."""
        return [layer.attention for layer in self.layers if layer.lender is None]

    @property
    def cuttable(self) -> bool:
        """Whether all layers can forget the last tokens: rings of windows and states cannot."""
        return not any(layer.window or layer.state_size for layer in self.keeping)


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """Ids of the tokens with which a model writes places, and `mask`, in whose place it writes several at once.

    `box` and `name`: the first and the last token of one; `places`: the first and the last coordinate; `none`: the word
    in a box that there is not; `blank`: nothing; `end`: of an answer. `window`: tokens that are written at once.
    """

    box: tuple[int, int]
    name: tuple[int, int]
    places: tuple[int, int]
    none: int
    blank: int
    mask: int
    end: int
    window: int = 6

    def is_place(self, token: int) -> bool:
        """Whether a token is a coordinate."""
        return self.places[0] <= token <= self.places[1]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder and, for models that see, the tower and the connector before it; early fusion has a connector only.

    `image_token` and `video_token` are the ids that features replace. `image_mask`: tokens that see each other whatever
    their order: those of an image (`image`, Gemma 3), with `image_marks` tokens before them, or the whole prompt
    (`prompt`, PaliGemma). `image_scale`: what features are multiplied by where they join the embeddings.

    `hearing` and `audio_token`: of models that hear.
    """

    decoder: DecoderSpec
    vision: VisionSpec | None = None
    connector: ConnectorSpec | None = None
    image_token: int | None = None
    video_token: int | None = None
    image_mask: Literal["image", "prompt"] | None = None
    image_marks: int = 0
    image_scale: float = 1.0
    mrope: MropeSpec | PlaneSpec | None = None  # how positions are counted, where they have three axes
    hearing: HearingSpec | None = None
    audio_token: int | None = None
    boxes: BoxSpec | None = None  # of models that write boxes in a step each
    notices: tuple[str, ...] = ()  # what the user should know, such as vision weights that are left out
