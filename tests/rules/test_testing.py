import os

import pytest

from workbench.rules import parse_rule, rule_set
from workbench.rules.ruleset import SETS, law_of, library, load_rules, statuses
from workbench.rules.testing import check_rule

DRAWS = int(os.environ.get("WORKBENCH_RULE_DRAWS", "45"))
LIBRARY = [rule for file in sorted(library().glob("*.rules")) for rule in load_rules(file)]

#: Tempting laws that are wrong somewhere: grouped convolutions, broadcasting, borders, order of parts.
WRONG = {
    "merge-grouped-convs": "each conv2d[c](x, w*) => slice[axis=-3](conv2d[c](x, concat[axis=-4](w*)))",
    "sum-grouped-convs": "add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, v)) => "
    "conv2d[c, act=none](concat[axis=-3](x, y), concat[axis=-3](w, v))",
    "sum-broadcast-kernels": "add(conv2d[c, act=none](x, w), conv2d[c, act=none](x, v)) => "
    "conv2d[c, act=none](x, add(w, v))",
    "group-unequal-convs": "concat[axis=-3](conv2d[c, groups=g](x, w), conv2d[c, groups=h](y, v)) => "
    "conv2d[c, groups=g + h](concat[axis=-3](x, y), concat[axis=-4](w, v))",
    "sums-broadcast-inputs": "add(conv2d[c, act=none](x, w), conv2d[c, act=none](y, w)) => "
    "conv2d[c, act=none](add(x, y), w)",
    "scale-with-activation": "mul(conv2d[c](x, w), a) => "
    "conv2d[c](x, mul(w, transpose[perm=(1, 0, 2, 3)](a))) "
    "where rank(a) = 4, dim(a, -4) = 1, dim(a, -2) = 1, dim(a, -1) = 1",
    "scale-keeps-bias": "mul(conv2d[c, act=none](x, w, b), a) => "
    "conv2d[c, act=none](x, mul(w, transpose[perm=(1, 0, 2, 3)](a)), b) "
    "where rank(a) = 4, dim(a, -4) = 1, dim(a, -2) = 1, dim(a, -1) = 1",
    "scale-per-place": "mul(conv2d[c, act=none](x, w), a) => "
    "conv2d[c, act=none](x, mul(w, transpose[perm=(1, 0, 2, 3)](a)))",
    "columns-as-rows": "mul(matmul(x, w), a) => matmul(mul(x, a), w)",
    "transpose-keeps-order": "transpose[perm=(1, 0)](matmul[c](a, b)) => "
    "matmul[c](transpose[perm=(1, 0)](a), transpose[perm=(1, 0)](b))",
    "composes-backwards": "transpose[perm=q](transpose[perm=p](x)) => transpose[perm=compose(q, p)](x)",
    "second-part-anywhere": "slice[axis=-1, start=i, stop=j](concat[axis=-1](x, y)) => y",
    "interchange-unswapped": "concat[axis=a](concat[axis=b](x, y), concat[axis=b](z, w)) => "
    "concat[axis=b](concat[axis=a](x, y), concat[axis=a](z, w)) where a != b",
    "pools-pad-with-zero": "maxpool[kernel=k, strides=s, pads=(t, l, b, r), ceil=0, dilations=(1, 1)](x) => "
    "maxpool[kernel=k, strides=s, ceil=0, dilations=(1, 1)](pad[pads=(t, l, b, r)](x))",
    "pads-with-a-value": "conv2d[c, pads=(t, l, b, r)](pad[pads=(i, j, k, m), value=v](x), w) => "
    "conv2d[c, pads=(t + i, l + j, b + k, r + m)](x, w)",
    "relu-of-sum": "relu(add(x, y)) => add(relu(x), relu(y))",
    "enlarge-without-dilation": "conv2d[c, pads=(t, l, b, r)](x, w) => "
    "conv2d[c, pads=(t, l + 1, b, r)](x, enlarge[pads=(0, 1, 0, 0)](w))",
    "groups-misplaced": "conv2d[c, groups=g](x, w) => "
    "conv2d[c, groups=g // 2](x, concat[axis=-3](w, w)) where g % 2 = 0",
    "batchnorm-forgets-bias": "batchnorm[eps=e](conv2d[c, act=none](x, w, a), s, b, m, v) => "
    "conv2d[c, act=none](x, mul(w, transpose[perm=(1, 0, 2, 3)](bn_scale[eps=e](s, v))), "
    "bn_shift[eps=e](s, b, m, v))",
    "batchnorm-other-epsilon": "batchnorm[eps=e](x, s, b, m, v) => "
    "add(mul(x, bn_scale[eps=0.001](s, v)), bn_shift[eps=0.001](s, b, m, v))",
    "identity-with-activation": "conv2d[act=a](x, identity_kernel[channels=c, dtype=d]()) => x",
    "mean-of-borders": "avgpool[kernel=(k, l), strides=s, pads=p, ceil=0, include_pad=0](x) => "
    "conv2d[strides=s, pads=p, groups=dim(x, -3)](x, "
    "mean_kernel[channels=dim(x, -3), kernel=(k, l), dtype=dtype(x)]())",
    "shift-through-padding": "conv2d[c](add(x, b), w) => add(conv2d[c](x, w), conv2d[c](b, w)) "
    "where rank(x) = 4, rank(b) = 4",
}


@pytest.mark.parametrize("rule", LIBRARY, ids=lambda r: r.name)
def test_no_rule_of_the_library_is_refuted(rule):
    check = check_rule(rule, DRAWS, seed=7)
    assert check.status == "tested", check


#: Laws about constants, on both sides.
CONSTANTS = {
    "eye-right": "matmul(x, eye[size=n, dtype=d]()) => x",
    "eye-made": "relu(x) => matmul(relu(x), eye[size=dim(x, -1), dtype=dtype(x)]())",
    "ones-right": "mul(x, ones[shape=s, dtype=d]()) => x",
    "ones-made": "reshape[shape=s](x) => mul(reshape[shape=s](x), ones[shape=s, dtype=dtype(x)]())",
    "identity-kernel": "conv2d[pads=(t, l, t, l), groups=g]"
    "(x, identity_kernel[channels=c, groups=g, kernel=(kh, kw), dtype=d]()) => x "
    "where t = (kh - 1) // 2, l = (kw - 1) // 2",
    "mean-kernel": "avgpool[kernel=(kh, kw), strides=s, pads=p, include_pad=1](x) => "
    "conv2d[strides=s, pads=p, groups=dim(x, -3)]"
    "(x, mean_kernel[channels=dim(x, -3), kernel=(kh, kw), dtype=dtype(x)]())",
    "cast-made": "cast[to=d](x) => mul(cast[to=d](x), ones[shape=(1), dtype=d]())",
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_laws_about_constants_are_tested(name):
    (rule,) = parse_rule(f"{name}: {CONSTANTS[name]}")
    check = check_rule(rule, 100)
    assert check.status == "tested", check


@pytest.mark.parametrize("name", WRONG)
def test_wrong_laws_are_refuted(name):
    (rule,) = parse_rule(f"{name}: {WRONG[name]}")
    check = check_rule(rule, 400)
    assert check.status == "refuted", check
    assert check.counterexample


def test_too_few_instances_say_nothing():
    (rule,) = parse_rule("rare: relu(relu(x)) => relu(x) where dim(x, -1) = 97")
    assert check_rule(rule, 50, tries=500).status == "unknown"


def test_status_file_covers_the_library_as_it_stands():
    known = statuses()
    assert set(known) == {r.name for r in LIBRARY}
    stale = [r.name for r in LIBRARY if known[r.name]["law"] != law_of(r)]
    assert stale == [], "run python -m workbench.rules.testing"


@pytest.mark.parametrize("name", SETS)
def test_default_sets_hold_only_trusted_rules(name):
    known = statuses()
    assert all(known[r.name]["status"] == "tested" for r in rule_set(name))
