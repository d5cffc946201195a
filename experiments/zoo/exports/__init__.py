"""Real architectures in the form that torch's exporters write, with seeded random weights.

The modules are written from the papers and have exactly the published numbers of parameters. They need
torch (``pip install 'tamago-workbench[torch]'``), which is imported when a module is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from workbench.support.plugins import Table

if TYPE_CHECKING:
    import torch

__all__ = ["Architecture", "Input", "architecture", "architectures"]


@dataclass(frozen=True, slots=True)
class Input:
    """An input of an architecture; a text in its shape names a dimension that may stay symbolic.

    Integer inputs are random numbers below ``below``, or all 1 if ``below`` is 0.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float32"
    below: int = 0

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape with its named dimensions replaced by their sizes."""
        return tuple(sizes[n] if isinstance(n, str) else n for n in self.shape)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A real architecture: its name, its inputs and outputs, and its published number of parameters.

    A function of this name in the module ``family`` builds it. ``parameters`` is the exact number of trained
    parameters, which ``source`` states. ``sizes`` are the usual sizes of the dimensions that may stay
    symbolic. If ``half``, it is exported in float16.
    """

    name: str
    family: str
    parameters: int
    source: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...] = ("output",)
    sizes: Mapping[str, int] = field(default_factory=lambda: {"batch": 1})
    half: bool = False

    def module(self, seed: int = 0) -> torch.nn.Module:
        """Return the module with seeded weights and non-trivial batch norms, in evaluation mode.

        Raise ImportError if torch is not installed.
        """
        from zoo.exports.weights import build

        return build(self, seed)


def _image(size: int = 224, channels: int = 3) -> tuple[Input, ...]:
    return (Input("image", ("batch", channels, size, size)),)


def _text(words: int, *, mask: bool = False) -> tuple[Input, ...]:
    tokens = Input("tokens", ("batch", "sequence"), "int64", words)
    return (tokens, Input("mask", ("batch", "sequence"), "int64")) if mask else (tokens,)


_HUB: Final = "torchvision's documentation of weights"
_TIMM: Final = "timm's table of results"
_FEATURES: Final = (Input("dense", ("batch", 13)), Input("sparse", ("batch", 26), "int64", 10_000))
_LONG: Final = {"batch": 1, "sequence": 128}
_SHORT: Final = {"batch": 1, "sequence": 32}

_KNOWN: Final = (
    Architecture("resnet18", "convolutional", 11_689_512, _HUB, _image()),
    Architecture("resnet50", "convolutional", 25_557_032, _HUB, _image()),
    Architecture("regnet_x_400mf", "convolutional", 5_495_976, _HUB, _image()),
    Architecture("regnet_y_400mf", "convolutional", 4_344_144, _HUB, _image()),
    Architecture("squeezenet1_1", "convolutional", 1_235_496, _HUB, _image()),
    Architecture("densenet121", "convolutional", 7_978_856, _HUB, _image()),
    Architecture("googlenet", "convolutional", 6_624_904, _HUB, _image()),
    Architecture("vgg11", "convolutional", 132_863_336, _HUB, _image()),
    Architecture("lenet5", "convolutional", 61_706, "the layers of its paper, all connected", _image(28, 1)),
    Architecture("mobilenet_v2", "mobile", 3_504_872, _HUB, _image()),
    Architecture("mobilenet_v3_small", "mobile", 2_542_856, _HUB, _image()),
    Architecture("efficientnet_b0", "mobile", 5_288_548, _HUB, _image()),
    Architecture("shufflenet_v2", "mobile", 2_278_604, _HUB, _image()),
    Architecture("repvgg_a0", "mobile", 9_108_968, _TIMM + " (9.11 M)", _image()),
    Architecture("mobileone_s0", "mobile", 5_293_272, _TIMM + " (5.29 M)", _image()),
    Architecture("vit_tiny", "vision_transformers", 5_717_416, "DeiT's repository (5.7 M)", _image()),
    Architecture("vit_b_16", "vision_transformers", 86_567_656, _HUB, _image()),
    Architecture("swin_t", "vision_transformers", 28_288_354, _HUB, _image()),
    Architecture("convnext_tiny", "vision_transformers", 28_589_128, _HUB, _image()),
    Architecture("mixer_s16", "vision_transformers", 18_528_264, _TIMM + " (18.53 M)", _image()),
    Architecture("poolformer_s12", "vision_transformers", 11_915_176, _TIMM + " (11.92 M)", _image()),
    Architecture(
        "segformer_b0", "vision_transformers", 3_752_694, "its paper (3.8 M with the head)", _image(256)
    ),
    Architecture(
        "segformer_b0_512", "vision_transformers", 3_752_694, "its paper (3.8 M with the head)", _image(512)
    ),
    Architecture(
        "segformer_b2_512", "vision_transformers", 27_461_974, "its paper (27.5 M with the head)", _image(512)
    ),
    Architecture(
        "bert_mini", "language", 11_170_560, "its paper (11.2 M)", _text(30_522, mask=True),
        ("hidden", "pooled"), _LONG,
    ),
    Architecture(
        "bert_base", "language", 109_482_240, "its paper (110 M)", _text(30_522, mask=True),
        ("hidden", "pooled"), _LONG,
    ),
    Architecture(
        "distilbert", "language", 66_362_880, "its paper (66 M)", _text(30_522, mask=True), ("hidden",), _LONG
    ),
    Architecture("gpt2", "language", 124_439_808, "its paper (124 M)", _text(50_257), ("scores",), _SHORT),
    Architecture(
        "t5_small_encoder", "language", 35_330_816, "its paper's 60 M without the decoder", _text(32_128),
        ("hidden",), _LONG,
    ),
    Architecture(
        "stories_260k", "language", 260_032, "llama2.c (260 K)", _text(512), ("scores",), _LONG
    ),
    Architecture(
        "tiny_llama", "language", 1_100_048_384, "its paper (1.1 B)", _text(32_000), ("scores",), _SHORT,
        half=True,
    ),
    Architecture(
        "ms_marco_tinybert_l2", "readers", 4_386_049, "BERT-tiny's paper (4.4 M)",
        _text(30_522, mask=True), ("score",), _LONG,
    ),
    Architecture(
        "ms_marco_minilm_l6", "readers", 22_713_601, "the sentence-transformers documentation (22.7 M)",
        _text(30_522, mask=True), ("score",), _LONG,
    ),
    Architecture(
        "tinybert_l4", "readers", 14_350_874, "its paper (14.5 M)", _text(30_522, mask=True), ("scores",),
        _LONG,
    ),
    Architecture("clip_vit_b_32", "readers", 87_849_216, "its paper's model card (87.8 M)", _image()),
    Architecture(
        "gpt2_next_word", "readers", 124_439_808, "its paper (124 M)", _text(50_257), ("scores",), _SHORT
    ),
    Architecture(
        "whisper_tiny_encoder", "sequences", 8_208_384, "its paper's 39 M without the decoder",
        (Input("sound", ("batch", 80, 3000)),), ("hidden",),
    ),
    Architecture(
        "lstm_language_model", "sequences", 19_780_400, "its paper (20 M)", _text(10_000), ("scores",), _SHORT
    ),
    Architecture(
        "lstm_tagger", "sequences", 2_163_409, "the layers' definition", _text(20_000), ("labels",), _SHORT
    ),
    Architecture(
        "gru_tagger", "sequences", 2_477_457, "the layers' definition", _text(20_000), ("labels",), _SHORT
    ),
    Architecture("unet", "dense_outputs", 31_037_633, "milesial/Pytorch-UNet", _image(256)),
    Architecture("yolov8n", "dense_outputs", 3_157_200, "Ultralytics' summary of the model", _image(640)),
    Architecture("hrnet_w18_small", "dense_outputs", 13_187_464, _TIMM + " (13.19 M)", _image()),
    Architecture("edsr_x2", "dense_outputs", 1_369_859, "its repository (1.37 M)", _image(96)),
    Architecture(
        "dcgan", "dense_outputs", 3_576_704, "torch's tutorial", (Input("noise", ("batch", 100, 1, 1)),)
    ),
    Architecture(
        "sd_vae_decoder", "upsampling", 49_490_199, "its paper's code (49.5 M)",
        (Input("latent", ("batch", 4, 16, 16)),), ("image",),  # an image of 128 x 128 pixels
    ),
    Architecture("unet_resnet34", "upsampling", 24_436_369, "smp's summary of the model", _image()),
    Architecture("pose_resnet18", "upsampling", 15_376_721, "the layers' definition", _image(256)),
    Architecture("dlrm", "ranking", 4_635_985, "the layers' definition", _FEATURES),
    Architecture(
        "neumf", "ranking", 1_912_513, "the layers' definition",
        (Input("user", ("batch",), "int64", 6040), Input("item", ("batch",), "int64", 3706)), ("score",),
    ),
    Architecture("wide_and_deep", "ranking", 10_102_703, "the layers' definition", _FEATURES),
)  # fmt: skip

_BY_NAME: Final = Table("architecture", {a.name: a for a in _KNOWN})


def architectures() -> list[str]:
    """Return the names of the architectures, family by family."""
    return list(_BY_NAME)


def architecture(name: str) -> Architecture:
    """Return an architecture by name; raise :class:`~workbench.support.messages.UnknownName` for an unknown name.

    >>> architecture("resnet18").parameters
    11689512
    """
    return _BY_NAME[name]


def each() -> Iterator[Architecture]:
    """Yield all architectures."""
    yield from _KNOWN
