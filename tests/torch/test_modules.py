"""Modules of public libraries with random weights, forward and backward: none may be wrong, none may crash."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from workbench.torch import backend, report  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.sweep]

#: Small models of timm, at the size of image that each takes.
TIMM = {
    "resnet18": 64, "resnet10t": 64, "resnet14t": 64, "resnext26ts": 64, "seresnext26t_32x4d": 64, "regnetx_002": 64,
    "regnety_002": 64, "mobilenetv2_050": 64, "mobilenetv3_small_050": 64, "efficientnet_b0": 64,
    "tf_efficientnet_lite0": 64, "mixnet_s": 64, "mnasnet_small": 64, "ghostnet_050": 64, "repvgg_a0": 64,
    "repghostnet_050": 64, "mobileone_s0": 64, "hardcorenas_a": 64, "densenet121": 64, "dla34": 64, "vgg11": 64,
    "cspresnet50": 64, "darknet17": 64, "resnest14d": 64, "skresnet18": 64, "ese_vovnet19b_dw": 64, "selecsls42b": 64,
    "hrnet_w18_small": 64, "convnext_atto": 64, "convnextv2_atto": 64, "poolformer_s12": 64, "poolformerv2_s12": 64,
    "edgenext_xx_small": 64, "fastvit_t8": 64, "repvit_m0_9": 64, "inception_next_atto": 64, "mambaout_femto": 64,
    "starnet_s1": 64, "vit_tiny_patch16_224": 224, "deit_tiny_patch16_224": 224, "cait_xxs24_224": 224,
    "mixer_s32_224": 224, "gmlp_ti16_224": 224, "resmlp_12_224": 224, "pit_ti_224": 224, "xcit_nano_12_p16_224": 224,
    "levit_128s": 224, "crossvit_tiny_240": 240, "coat_tiny": 224, "twins_svt_small": 224,
}  # fmt: skip

#: Models of transformers, each with the class of its settings and the settings of a small one.
_SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 99,
}
TRANSFORMERS = {
    "Bert": _SMALL,
    "Roberta": _SMALL,
    "Electra": _SMALL | {"embedding_size": 64},
    "Albert": _SMALL | {"embedding_size": 64},
    "Llama": _SMALL,
    "Mistral": _SMALL | {"num_key_value_heads": 2},
    "Qwen2": _SMALL,
    "Gemma": _SMALL | {"head_dim": 16},
    "GPTNeoX": _SMALL,
    "OPT": _SMALL | {"ffn_dim": 128, "word_embed_proj_dim": 64},
}


def timm_model(name):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    model = timm.create_model(name, num_classes=10)
    return model, (torch.randn(2, 3, TIMM[name], TIMM[name]),)


def transformers_model(name):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    settings = {**TRANSFORMERS[name], "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = getattr(transformers, f"{name}Config")(**settings)
    model = getattr(transformers, f"{name}Model")(config)
    tokens = torch.randint(3, 99, (2, 12))
    model(tokens)  # the first call installs hooks, which would break the graph
    return model, (tokens,)


class Single(torch.nn.Module):
    """A model with its first tensor as the result."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *arguments):
        found = self.inner(*arguments)
        return found if isinstance(found, torch.Tensor) else found[0]


def gradients(model, call, arguments):
    torch.manual_seed(1)
    model.zero_grad(set_to_none=True)
    result = call(*arguments)
    (result.float() * torch.linspace(-1, 1, result.numel()).reshape(result.shape)).sum().backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return result.detach(), found


@pytest.mark.parametrize(
    ("make", "name"),
    [*((timm_model, n) for n in TIMM), *((transformers_model, n) for n in TRANSFORMERS)],
    ids=[*TIMM, *TRANSFORMERS],
)
def test_a_module_trains_as_without_the_backend(make, name):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, arguments = make(name)
    for part in model.modules():  # other random numbers are no error
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    model = Single(model).train()
    ours = copy.deepcopy(model)
    call = torch.compile(ours, backend=backend, options={"then": "eager"})
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
        allowed = max(3 * float((gradient - exact[key]).norm()) / scale, 1e-3)
        assert float((own[key] - exact[key]).norm()) / scale <= allowed, key
    assert report(ours).parts
    for part in report(ours).parts:
        assert "Error" not in part.handed_on
