"""A SegFormer whose head is rewritten by hand: torch 2.13 compiled it to a right loss and gradients of zero.

``plain`` needs torch and transformers alone. As a program this file says what the installed torch makes of it.
"""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from torch.nn import functional  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.nightly]


def rewritten(side):
    """Return a SegFormer-B0 whose head mixes channels before it resizes, with the arguments of its loss."""
    torch.manual_seed(0)
    config = transformers.SegformerConfig(num_labels=150, classifier_dropout_prob=0.0, drop_path_rate=0.0)
    model = transformers.SegformerForSemanticSegmentation(config)
    head, width = model.decode_head, config.decoder_hidden_size

    def forward(states, **_):
        total = 0
        for k, (x, layer) in enumerate(zip(states[::-1], reversed(head.linear_projections), strict=True)):
            mixing = head.linear_fuse.weight[:, k * width : (k + 1) * width, 0, 0]
            kernel = (mixing @ layer.proj.weight)[:, :, None, None]
            y = functional.conv2d(x, kernel, mixing @ layer.proj.bias)
            total = total + functional.interpolate(y, states[0].shape[2:], mode="bilinear")
        return head.classifier(torch.relu(head.batch_norm(total)))

    image, labels = torch.randn(2, 3, side, side), torch.randint(150, (2, side, side))
    with torch.no_grad():  # hooks that the first call installs would break the graph
        model.eval()(image[:1, :, :64, :64])
    head.forward = forward
    return model.train(), image, labels


def gradients(model, call, image, labels):
    """Return the loss and the norms of all gradients."""
    model.zero_grad()
    loss = call(image, labels=labels).loss
    loss.backward()
    return loss.item(), [0.0 if p.grad is None else p.grad.norm().item() for p in model.parameters()]


def plain(side=256):
    """Return losses and norms of gradients in eager and as torch compiles it."""
    model, image, labels = rewritten(side)
    expected = gradients(model, model, image, labels)
    return *expected, *gradients(model, torch.compile(model), image, labels)


def test_gradients_of_zero_are_replaced():
    from workbench.torch import backend, report

    loss, norms, compiled_loss, compiled = plain()
    assert compiled_loss == pytest.approx(loss, rel=1e-4)
    if compiled == pytest.approx(norms, rel=1e-2, abs=1e-4 * max(norms)):
        pytest.skip(f"torch {torch.__version__} gives right gradients")
    torch._dynamo.reset()
    model, image, labels = rewritten(256)
    _, found = gradients(model, torch.compile(model, backend=backend), image, labels)
    assert found == pytest.approx(norms, rel=1e-2, abs=1e-4 * max(norms))
    assert any("gradients" in failure for part in report(model).parts for failure in part.failures)


if __name__ == "__main__":
    eager_loss, eager_norms, loss, norms = plain()
    print(f"torch {torch.__version__}: losses {eager_loss:.6f} in eager, {loss:.6f} compiled")
    print(
        f"gradients of zero: {sum(n == 0 for n in eager_norms)} in eager, {sum(n == 0 for n in norms)} compiled"
    )
