import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from workbench.torch.checks import compared, outcome  # noqa: E402

pytestmark = pytest.mark.torch


def arguments():
    torch.manual_seed(0)
    return [torch.randn(5, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True), torch.arange(3)]


def product(x, w, _):
    return (x @ w).relu()


def verdict(other, **kwargs):
    given = arguments()
    reference = outcome(product, given, 0)
    return compared(outcome(other, given, 0), reference, outcome(product, given, 0, precise=True), **kwargs)


def test_equal_functions_agree():
    assert verdict(product).passed
    assert verdict(lambda x, w, n: (w.T @ x.T).T.relu()).passed
    assert verdict(product).distance == 0


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (lambda x, w, n: 1.001 * product(x, w, n), "results"),
        (lambda x, w, n: product(x.detach(), w, n), "gradients"),
        (lambda x, w, n: product(x, w, n) + 0.01 * (w - w.detach()).sum(), "gradients"),
        (lambda x, w, n: (product(x, w, n), x), "results"),
        (lambda x, w, n: product(x, w, n)[:2], "results"),
        (lambda x, w, n: product(x, w, n) / 0, "results"),
    ],
)
def test_what_differs_is_told(other, what):
    found = verdict(other)
    assert not found.passed
    assert what in found.reason


def test_an_update_of_an_argument_is_compared():
    given = [torch.zeros(3)]

    def updates(x):
        x.add_(1)
        return x * 2

    reference = outcome(updates, given, 0)
    assert given[0].sum() == 0
    assert compared(outcome(updates, given, 0), reference, None).passed
    assert "updated" in compared(outcome(lambda x: (x + 1) * 2, given, 0), reference, None).reason


def test_other_random_numbers_are_compared_by_norms():
    def noisy(x, w, _):
        return product(x, torch.nn.functional.dropout(w, 0.2), _)

    given = arguments()
    reference = outcome(noisy, given, 0)
    assert compared(outcome(noisy, given, 7), reference, None, is_random=True).passed
    zero = outcome(lambda x, w, n: noisy(x, w, n).detach() + 0 * noisy(x, w, n), given, 7)
    assert not compared(zero, reference, None, is_random=True).passed


def test_a_run_leaves_seed_and_arguments_as_they_are():
    given = arguments()
    torch.manual_seed(3)
    expected = torch.randn(2)
    torch.manual_seed(3)
    outcome(lambda x, w, n: torch.nn.functional.dropout(product(x, w, n)), given, 5)
    assert torch.equal(torch.randn(2), expected)
    assert given[0].grad is None
