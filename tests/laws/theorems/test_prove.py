"""True rules become theorems, false ones never do."""

import pytest

import workbench
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.prove import attempt
from workbench.laws.theorems.store import REASONS

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")

TRUE = r"""
relu-of-concat: relu(concat[axis=a](x, y)) => concat[axis=a](relu(x), relu(y))
scaled-conv: mul(conv2d[c, act=none](x, w), s) => conv2d[c, act=none](x, mul(w, s)) where rank(s) = 0
product-of-parts: matmul(concat[axis=-1](x, y), concat[axis=-2](w, v)) => add(matmul(x, w), matmul(y, v)) where dim(x, -1) = dim(w, -2)
transposed: transpose[perm=q](transpose[perm=p](x)) => transpose[perm=compose(p, q)](x)
summed: reduce_sum[axes=(-1)](add(x, y)) => add(reduce_sum[axes=(-1)](x), reduce_sum[axes=(-1)](y)) where dim(x, -1) = dim(y, -1)
shifted: softmax[axis=-1](add(x, t)) => softmax[axis=-1](x) where dim(t, -1) = 1
softmax-between: softmax[axis=a](transpose[perm=p](x)) => transpose[perm=p](softmax[axis=p[a]](x))
undone: sub(transpose[perm=p](x), y) => transpose[perm=p](sub(x, transpose[perm=inverse(p)](y))) where rank(y) = rank(x)
last-stays: reduce_sum[axes=(-1)](transpose[perm=p](x)) => transpose[perm=p](reduce_sum[axes=(-1)](x)) where p[-1] = -1
shifted-largest: reduce_max[axes=(a)](add(x, t)) => add(reduce_max[axes=(a)](x), t) where dim(t, a) = 1
counted: reduce_sum[axes=(a)](mul(x, reduce_sum[axes=(a)](ones[shape=s]()))) => mul(reduce_sum[axes=(a)](x), reduce_sum[axes=(a)](ones[shape=s]()))
largest-twice: reduce_max[axes=(a)](reduce_max[axes=(b)](x)) => reduce_max[axes=(a, b)](x) where a != b
fused: swish(matmul[act=none](x, w)) => matmul[act=silu](x, w)
neighbours: concat[axis=a](slice[axis=a, start=i, stop=j](x), slice[axis=a, start=k, stop=l](x)) => slice[axis=a, start=i, stop=l](x)
blocks: conv2d[c, groups=g](x, w) => conv2d[c, groups=1](x, merge_gconv[count=g, groups=g](w))
wider: relu(cast[to=d](x)) => cast[to=d](relu(x)) where dtype(x) <= d
rows-of-sum: gather[axis=-2](add(m, b), i) => add(gather[axis=-2](m, i), b) where rank(m) = 2, rank(b) = 1
quotient-as-product: div(x, mul(y, z)) => mul(div(x, y), reciprocal(z))
part-of-quotient: slice[axis=-1, start=i, stop=j](div(x, y)) => div(slice[axis=-1, start=i, stop=j](x), slice[axis=-1, start=i, stop=j](y)) where dim(x, -1) = dim(y, -1)
bound-as-bound: clip[low=a](x) => max(x, scalar[value=a]())
unmoved: transpose[perm=p](x) => x where compose(p, p) = p
unmoved-between: relu(transpose[perm=p](transpose[perm=q](x))) => transpose[perm=q](relu(x)) where p = compose(p, p)
"""  # noqa: E501

#: Rules that hold for most types but not for all: large extents or strides, groups, ranks, activations.
FALSE = """
eps: batchnorm[eps=e](x, s, b, m, v) => batchnorm[eps=0.25](x, s, b, m, v)
extent: matmul(x, w) => matmul(slice[axis=-1, start=0, stop=min(dim(x, -1), 997)](x), slice[axis=-2, start=0, stop=min(dim(x, -1), 997)](w))
slice-extent: slice[axis=-1, start=i, stop=j](x) => slice[axis=-1, start=i - dim(x, -1) // 1000, stop=j - dim(x, -1) // 1000](x)
groups: conv2d[groups=g, pads=(t, l, b, r), c](x, w) => conv2d[groups=g, pads=(t + g // 7, l, b - g // 7, r), c](x, w)
strides: conv2d[strides=(s, u), pads=(t, l, b, r), c](x, w) => conv2d[strides=(s, u), pads=(t + s // 4, l, b - s // 4, r), c](x, w)
dilations: conv2d[dilations=(d, e), pads=(t, l, b, r), c](x, w) => conv2d[dilations=(d, e), pads=(t + d // 4, l, b - d // 4, r), c](x, w)
dilations-min: conv2d[dilations=(d, e), c](x, w) => conv2d[dilations=(min(d, 2), min(e, 2)), c](x, w)
dilations-min-3: conv2d[dilations=(d, e), c](x, w) => conv2d[dilations=(min(d, 3), e), c](x, w)
pool-dilations: maxpool[dilations=(d, e), c](x) => maxpool[dilations=(min(d, 3), min(e, 3)), c](x)
step: slice[axis=-1, start=i, stop=j, step=s](x) => slice[axis=-1, start=i, stop=j, step=min(s, 3)](x)
any-act: relu(conv2d[act=a, c](x, w)) => conv2d[act=relu, c](x, w)
any-act-product: relu(matmul[act=a](x, w)) => matmul[act=relu](x, w)
act-of-relus: matmul[act=a](relu(x), relu(w)) => matmul(relu(x), relu(w))
scale-act: mul(matmul[act=a](x, w), relu(s)) => matmul[act=a](x, mul(w, relu(s))) where rank(s) = 0
stride-min: conv2d[strides=(s, u), c](x, w) => conv2d[strides=(min(s, 2), u), c](x, w)
start-min: slice[axis=-1, start=i, stop=j](x) => slice[axis=-1, start=min(i, 997), stop=j - i + min(i, 997)](x)
kernel: conv2d[pads=(t, l, b, r), c](x, w) => conv2d[pads=(t + dim(w, -2) // 10, l, b - dim(w, -2) // 10, r), c](x, w)
pads: conv2d[pads=(t, l, b, r), c](x, w) => conv2d[pads=(t + t // 8, l, b - t // 8, r), c](x, w)
rank-5: transpose[perm=p](mul(x, a)) => mul(transpose[perm=p](x), a) where dim(a, -1) = 1, dim(a, -2) = 1, dim(a, -3) = 1, dim(a, -4) = 1
all-padding: sigmoid(maxpool[c, ceil=0](x)) => maxpool[c, ceil=0](sigmoid(x))
all-padding-relu: relu(maxpool[c, ceil=0](x)) => maxpool[c, ceil=0](relu(x))
halves: add(x, y) => mul(x, y)
other-order: matmul(x, y) => matmul(y, x)
half: relu(add(x, y)) => add(relu(x), relu(y))
root: sqrt(add(x, y)) => add(sqrt(x), sqrt(y))
nested: max(x, min(y, z)) => min(max(x, y), z)
flag: sub(y, reduce_mean[axes=(-1), keepdims=k](x)) => sub(y, reduce_mean[axes=(-1)](x)) where rank(x) = 2, rank(y) = 2
last-row-cut: gather[axis=-2](m, i) => gather[axis=-2](slice[axis=-2, start=0, stop=dim(m, -2) - 1](m), i) where rank(m) = 2
first-part-of-rows: gather[axis=-2](concat[axis=-2](m, n), i) => gather[axis=-2](m, i) where rank(m) = 2, rank(n) = 2
bound-without-end: clip[low=a](x) => add(clip[low=a](x), sub(scalar[value=a, dtype=dtype(x)](), scalar[value=a, dtype=dtype(x)]()))
pi-by-name: mul(x, scalar[value=pi]()) => mul(x, pi[dtype=dtype(x)]())
widths: add(conv2d[act=none, c](x, w), conv2d[act=none, c](x, v)) => conv2d[act=none, c](x, add(w, v)) where dim(w, -4) = dim(v, -4), dim(w, -2) = dim(v, -2)
no-log: relu(x) => add(relu(x), mul(log(x), 0))
no-reciprocal: mul(x, 0) => mul(reciprocal(x), 0)
no-root: abs(x) => add(abs(x), sub(sqrt(x), sqrt(x)))
no-quotient: mul(x, y) => add(mul(x, y), sub(div(x, y), div(x, y)))
no-power: relu(x) => add(relu(x), mul(pow(x, x), 0))
other-rows: log(slice[axis=-1, start=0, stop=2](x)) => log(add(slice[axis=-1, start=0, stop=2](x), sub(reduce_sum[axes=(-1)](log(x)), reduce_sum[axes=(-1)](log(x)))))
borders: conv2d[pads=(1, 1, 1, 1), act=none, c](add(x, t), w) => add(conv2d[pads=(1, 1, 1, 1), act=none, c](x, w), conv2d[pads=(0, 0, 0, 0), act=none, c](x, w))
biased: conv2d[c, act=none](x, add(w, v), b) => add(conv2d[c, act=none](x, w, b), conv2d[c, act=none](x, v, b))
mean: avgpool[c, include_pad=0, ceil=0](x) => avgpool[c, include_pad=1, ceil=0](x)
crossed: concat[axis=a](x, y) => concat[axis=a](y, x)
twice: softmax[axis=-1](softmax[axis=-1](x)) => softmax[axis=-1](x)
scaled-softmax: softmax[axis=-1](mul(x, s)) => softmax[axis=-1](x) where rank(s) = 0
wrong-axis: reduce_sum[axes=(-1)](reduce_max[axes=(-2)](x)) => reduce_max[axes=(-2)](reduce_sum[axes=(-1)](x))
no-permutation: transpose[perm=(1, 1)](transpose[perm=(1, 1)](x)) => x
never: conv2d[c, groups=g](x, w) => conv2d[c, groups=g + 1](x, w)
lost-axis: mul(transpose[perm=p](x), reduce_sum[axes=(-1)](transpose[perm=p](y))) => mul(transpose[perm=p](y), reduce_sum[axes=(-1)](transpose[perm=p](x)))
other-frame: softmax[axis=-1](transpose[perm=p](x)) => transpose[perm=p](softmax[axis=-1](x))
wrong-way: softmax[axis=a](transpose[perm=p](x)) => transpose[perm=p](softmax[axis=a](x))
narrower: relu(cast[to=d](x)) => cast[to=d](relu(x)) where d <= dtype(x)
any-type: relu(cast[to=d](x)) => cast[to=d](relu(x))
moved: transpose[perm=p](transpose[perm=q](x)) => x where compose(p, p) = p
forth-and-forth: transpose[perm=p](transpose[perm=p](x)) => x
inverse-shift: sub(transpose[perm=p](x), y) => transpose[perm=p](sub(x, transpose[perm=p](y))) where rank(y) = rank(x)
axis-of-transpose: reduce_max[axes=(a)](transpose[perm=p](x)) => transpose[perm=p](reduce_max[axes=(a)](x))
last-axis: reduce_sum[axes=(-1)](transpose[perm=p](x)) => transpose[perm=p](reduce_sum[axes=(-1)](x)) where p[-2] = -2
joined-elsewhere: concat[axis=-1](transpose[perm=p](x), transpose[perm=p](y)) => transpose[perm=p](concat[axis=-1](x, y))
five-axes: add(reduce_sum[axes=(a)](x), reduce_sum[axes=(a)](y)) => reduce_sum[axes=(a)](add(x, y)) where dim(x, -4) = dim(y, -4), dim(x, -3) = dim(y, -3), dim(x, -2) = dim(y, -2), dim(x, -1) = dim(y, -1)
same-axis: reduce_sum[axes=(a)](reduce_mean[axes=(b)](x)) => reduce_mean[axes=(a)](reduce_sum[axes=(b)](x))
sum-of-shifted: reduce_sum[axes=(a)](add(x, t)) => add(reduce_sum[axes=(a)](x), t) where dim(t, a) = 1
scaled-largest: reduce_max[axes=(a)](mul(x, s)) => mul(reduce_max[axes=(a)](x), s) where dim(s, a) = 1
dropped: reduce_sum[axes=(-2), keepdims=0](x) => reduce_sum[axes=(-1), keepdims=0](x) where rank(x) = 2
padded-mean: avgpool[include_pad=1, ceil=0, r](conv2d[strides=(1, 1), pads=(0, 0, 0, 0), groups=g, act=none, c](x, w, b)) => conv2d[groups=g](avgpool[include_pad=1, ceil=0, r](x), w, b) where dim(w, -2) = 1, dim(w, -1) = 1
relu6-relu: clip[low=0.0, high=6.0](conv2d[c, act=none](x, w)) => conv2d[c, act=relu](x, w)
silu-gelu: swish(matmul[act=none](x, w)) => matmul[act=gelu](x, w)
slow-swish: swish[alpha=e](matmul[act=none](x, w)) => matmul[act=silu](x, w)
"""  # noqa: E501


@pytest.mark.parametrize("rule", workbench.parse_rules(TRUE), ids=lambda r: r.name)
def test_true_rules_are_theorems(rule):
    found = attempt(rule, seconds=60)
    assert found.proof is not None, found.detail


@pytest.mark.slow
@pytest.mark.parametrize("rule", workbench.parse_rules(FALSE), ids=lambda r: r.name)
def test_false_rules_are_not_theorems(rule):
    found = attempt(rule, seconds=2)
    assert found.proof is None
    assert found.why in REASONS
