"""Modules of public libraries with random weights, forward and backward: none may be wrong, none may crash.

With ``-s`` each says how many graphs torch gave, how often it broke them, and which operators were kept as unknown.
"""

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from workbench.torch import backend, report  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.nightly]

#: Small models of timm, at the size of image that each takes.
TIMM = {
    "resnet10t": 64, "seresnext26t_32x4d": 64, "regnety_002": 64, "mobilenetv3_small_050": 64, "mixnet_s": 64,
    "ghostnet_050": 64, "repvgg_a0": 64, "mobileone_s0": 64, "resnest14d": 64, "skresnet18": 64, "hrnet_w18_small": 64,
    "convnext_atto": 64, "convnextv2_atto": 64, "poolformerv2_s12": 64, "edgenext_xx_small": 64, "fastvit_t8": 64,
    "inception_next_atto": 64, "mambaout_femto": 64, "starnet_s1": 64, "nf_resnet26": 64, "coatnet_nano_rw_224": 224,
    "deit_tiny_patch16_224": 224, "cait_xxs24_224": 224, "beit_base_patch16_224": 224, "mixer_s32_224": 224,
    "xcit_nano_12_p16_224": 224, "levit_128s": 224, "coat_tiny": 224, "twins_svt_small": 224,
    "swin_tiny_patch4_window7_224": 224, "maxvit_rmlp_pico_rw_256": 256, "mobilevit_xxs": 64, "mobilevitv2_050": 64,
    "efficientformer_l1": 224, "gcvit_xxtiny": 224, "volo_d1_224": 224, "tiny_vit_5m_224": 224, "hiera_tiny_224": 224,
    "eva02_tiny_patch14_224": 224,
}  # fmt: skip

#: Models of torchvision: detection, segmentation, shifted windows, video.
VISION = (
    "densenet121",
    "shufflenet_v2_x0_5",
    "swin_v2_t",
    "lraspp_mobilenet_v3_large",
    "deeplabv3_resnet50",
    "vit_b_32",
)

#: Models of transformers, each with the settings of a small one.
_SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 99,
}  # fmt: skip
_IMAGE = _SMALL | {"image_size": 32, "patch_size": 8}
_PAIR = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "vocab_size": 99,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "decoder_start_token_id": 2,
}  # fmt: skip
_PATH = _SMALL | {"embedding_size": 64}
TOKENS = {
    "Bert": _SMALL, "Electra": _PATH, "Albert": _PATH, "Llama": _SMALL, "Mistral": _SMALL | {"num_key_value_heads": 2},
    "Gemma": _SMALL | {"head_dim": 16, "num_key_value_heads": 4},
    "GPTNeoX": _SMALL, "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99},
    "OPT": _SMALL | {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "Bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99},
    "Falcon": _SMALL | {"alibi": True}, "Mamba": _SMALL | {"state_size": 8}, "Deberta": _SMALL, "Bart": _PAIR,
    "T5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 99},
}  # fmt: skip
PIXELS = {
    "ViT": _IMAGE, "CLIPVision": _IMAGE,
    "Swin": {"image_size": 32, "embed_dim": 24, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
    "Segformer": {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]},
    "MobileViT": {"image_size": 64, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 48, 56, 64]},
    "Dinov2": _IMAGE,
}  # fmt: skip
_HEARD = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "num_conv_pos_embeddings": 16,
}
SOUND = {
    "Wav2Vec2": _HEARD
    | {"conv_dim": [16] * 3, "conv_kernel": [8, 4, 4], "conv_stride": [4, 4, 2], "mask_time_prob": 0.0},
    "Whisper": _PAIR | {"num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 20, "pad_token_id": 0},
}  # fmt: skip


def timm_model(name):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    return timm.create_model(name, num_classes=10), (torch.randn(2, 3, TIMM[name], TIMM[name]),)


def vision_model(name):
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    side = 224 if name == "vit_b_32" else 64
    kwargs = {"weights_backbone": None} if "v3" in name else {}
    return models.get_model(name, weights=None, num_classes=10, **kwargs), (torch.randn(2, 3, side, side),)


def transformers_model(name):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    settings = {**TOKENS, **PIXELS, **SOUND}[name]
    if name in TOKENS:
        settings = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **settings}
    config = getattr(transformers, f"{name}Config")(**settings)
    model = getattr(transformers, f"{name}Model")(config)
    if name in TOKENS:
        arguments = (torch.randint(3, 99, (2, 12)),)
        given = {"decoder_input_ids": arguments[0]} if name in ("T5", "Bart") else {}
    elif name in PIXELS:
        side = 64 if name in ("MobileViT", "Segformer") else 32
        arguments, given = (torch.randn(2, 3, side, side),), {}
    elif name == "Whisper":
        arguments, given = (torch.randn(2, 16, 40),), {"decoder_input_ids": torch.randint(3, 99, (2, 7))}
    else:
        arguments, given = (torch.randn(2, 800),), {}
    model = Single(model, given)
    model.train()(*arguments)  # the first call installs hooks, which would break the graph
    return model, arguments


class Single(torch.nn.Module):
    """A model with its first tensor as the result."""

    def __init__(self, inner, given=None):
        super().__init__()
        self.inner, self.given = inner, given or {}

    def forward(self, *arguments):
        found = self.inner(*arguments, **self.given)
        if isinstance(found, torch.Tensor):
            return found
        return found["out"] if isinstance(found, dict) and "out" in found else found[0]


class Recurrent(torch.nn.Module):
    """Layers of a recurrent kind, of which the last state is read."""

    def __init__(self, kind):
        super().__init__()
        self.layers, self.head = kind(16, 24, num_layers=2, batch_first=True), torch.nn.Linear(24, 50)

    def forward(self, x):
        return self.head(self.layers(x)[0])[:, -1]


def recurrent_model(name):
    return Recurrent(getattr(torch.nn, name)), (torch.randn(3, 7, 16),)


MADE = [
    *((timm_model, n) for n in TIMM),
    *((vision_model, n) for n in VISION),
    *((transformers_model, n) for n in (*TOKENS, *PIXELS, *SOUND)),
    *((recurrent_model, n) for n in ("RNN", "LSTM", "GRU")),
]
#: A few go on to Inductor, which compiles for long.
COMPILED = {"mobilenetv3_small_050", "Bert", "GPT2", "Segformer", "LSTM"}


def gradients(model, call, arguments):
    torch.manual_seed(1)
    model.zero_grad(set_to_none=True)
    result = call(*arguments)
    (result.float() * torch.linspace(-1, 1, result.numel()).reshape(result.shape)).sum().backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return result.detach(), found


@pytest.mark.parametrize(
    ("make", "name", "then"),
    [*((m, n, "eager") for m, n in MADE), *((m, n, "inductor") for m, n in MADE if n in COMPILED)],
    ids=[*(n for _, n in MADE), *(f"{n}-inductor" for _, n in MADE if n in COMPILED)],
)
def test_a_module_trains_as_without_the_backend(make, name, then):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    model, arguments = make(name)
    for part in model.modules():  # other random numbers are not an error
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        if hasattr(part, "drop_prob"):
            part.drop_prob = 0.0
    model = Single(model).train()
    ours = copy.deepcopy(model)
    call = torch.compile(ours, backend=backend, options={"then": then, "time": False})
    expected, theirs = gradients(model, model, arguments)
    found, own = gradients(ours, call, arguments)
    exact_model = copy.deepcopy(model).double()
    wide = tuple(a.double() if a.is_floating_point() else a for a in arguments)
    _, exact = gradients(exact_model, exact_model, wide)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert own.keys() == theirs.keys()
    top = max(float(g.norm()) for g in exact.values())
    for key, gradient in theirs.items():
        scale = max(float(exact[key].norm()), 1e-4 * top)
        allowed = max(3 * float((gradient - exact[key]).norm()) / scale, 1e-3 if then == "eager" else 5e-3)
        assert float((own[key] - exact[key]).norm()) / scale <= allowed, key
    parts = report(ours).parts
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    unknown = sorted({op for part in parts for op in part.unknown})
    print(f"\n{name}: {len(parts)} graphs, {breaks} breaks, kept: {', '.join(unknown)}")
    assert parts or breaks  # torch gives nothing of what it does not trace, such as an LSTM
    for part in parts:
        assert "Error" not in part.handed_on, part.handed_on
        assert not part.failures
