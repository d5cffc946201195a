# ruff: noqa: E501
"""E-graphs of degenerate shapes as files, and files that are not e-graphs."""

import json
import math
import random

SHAPES = {}
BROKEN = {
    "empty": "",
    "not an object": "[]",
    "cut off": '{"nodes": {"a": {"op": "f"',
    "no nodes": '{"root_eclasses": ["r"]}',
    "no e-nodes": '{"nodes": {}, "root_eclasses": []}',
    "no e-nodes but a root": '{"nodes": {}, "root_eclasses": ["r"]}',
    "null": '{"nodes": null, "root_eclasses": null}',
    "e-nodes in a list": '{"nodes": [], "root_eclasses": ["r"]}',
    "NaN": '{"nodes": {"a": {"op": "f", "children": [], "eclass": "r", "cost": NaN}}, "root_eclasses": ["r"]}',
    "minus infinity": '{"nodes": {"a": {"op": "f", "eclass": "r", "cost": -Infinity}}, "root_eclasses": ["r"]}',
    "only infinite": '{"nodes": {"a": {"op": "f", "eclass": "r", "cost": Infinity}}, "root_eclasses": ["r"]}',
    "overflow": '{"nodes": {"a": {"op": "f", "eclass": "r", "cost": 1e999}}, "root_eclasses": ["r"]}',
    "a long number": '{"nodes": {"a": {"op": "f", "eclass": "r", "cost": 1' + "0" * 400 + '}}, "root_eclasses": ["r"]}',
    "a very long number": '{"nodes": {"a": {"op": "f", "eclass": "r", "cost": 1' + "0" * 9000 + '}}, "root_eclasses": ["r"]}',
    "cost in words": '{"nodes": {"a": {"op": "f", "eclass": "r", "cost": "1"}}, "root_eclasses": ["r"]}',
    "children of null": '{"nodes": {"a": {"op": "f", "eclass": "r", "children": null}}, "root_eclasses": ["r"]}',
    "children of children": '{"nodes": {"a": {"op": "f", "eclass": "r", "children": [[]]}}, "root_eclasses": ["r"]}',
    "children of two kinds": '{"nodes": {"a": {"op": "f", "eclass": "r", "children": [1, "a"]}}, "root_eclasses": ["r"]}',
    "an e-node of text": '{"nodes": {"a": "f"}, "root_eclasses": ["r"]}',
    "twice": '{"nodes": {"a": {"op": "f", "eclass": "r"}, "a": {"op": "g", "eclass": "r"}}, "root_eclasses": ["r"]}',
    "a root that is not a text": '{"nodes": {"a": {"op": "f", "eclass": "r"}}, "root_eclasses": [null]}',
    "an unknown root": '{"nodes": {"a": {"op": "f", "eclass": "r"}}, "root_eclasses": ["s"]}',
    "an unknown child": '{"nodes": {"a": {"op": "f", "eclass": "r", "children": ["z"]}}, "root_eclasses": ["r"]}',
    "nested": "[" * 100_000,
    "nested children": '{"nodes": {"a": {"op": "f", "eclass": "r", "children": ' + "[" * 3000 + "]" * 3000 + '}}, "root_eclasses": ["r"]}',
    "a lone surrogate": '{"nodes": {"\\ud800": {"op": "\\ud800", "eclass": "\\ud800", "cost": 1}}, "root_eclasses": ["\\ud800"]}',
    "a surrogate without term": '{"nodes": {"\\ud800": {"op": "f", "eclass": "\\ud800", "children": ["\\ud800"]}}, "root_eclasses": ["\\ud800"]}',
    "zero bytes": "\0\0\0\0",
}  # fmt: skip


def shape(build):
    """Register a function from a size and a random generator to rows of e-nodes and to roots."""
    SHAPES[build.__name__] = build
    return build


def text(rows, roots):
    """Return the file of rows (e-class, children, cost); a child that no e-node has is refused by the format."""
    first = {}
    for i, (c, _, _) in enumerate(rows):
        first.setdefault(c, i)
    nodes = {
        str(i): {
            "op": f"op{i % 97}",
            "children": [str(first[d]) for d in kids],
            "eclass": f"c{c}",
            "cost": cost,
        }
        for i, (c, kids, cost) in enumerate(rows)
    }
    return json.dumps({"nodes": nodes, "root_eclasses": [f"c{r}" for r in roots]})


@shape
def wide(n, rng):
    m = max(2, n // 50)
    rows = [(c, [], rng.randint(1, 99)) for c in range(1, m + 1)]
    return rows + [(0, [rng.randint(1, m) for _ in range(5)], rng.randint(1, 400)) for _ in range(n)], [0]


@shape
def wide_pairs(n, rng):
    """Few e-classes of very many e-nodes that read one another."""
    k = 8
    rows = [
        (c, [rng.randrange(k) for _ in range(3)], rng.randint(1, 9)) for c in range(k) for _ in range(n // k)
    ]
    return rows + [(c, [], 10 + rng.randint(0, 9)) for c in range(k)], [0, 1]


@shape
def deep(n, rng):
    rows = [(c, [c + 1], 1) for c in range(n)]
    return [*rows, (n, [], 1)], [0]


@shape
def ladder(n, rng):
    """Two rails with rungs: every e-class reads one of the two next ones."""
    rows = []
    for c in range(0, n - 2, 2):
        for d in (c, c + 1):
            rows += [(d, [c + 2], rng.randint(1, 9)), (d, [c + 3], rng.randint(1, 9))]
    top = 2 * ((n - 1) // 2)
    rows += [(top, [], 1), (top + 1, [], 1)]
    return rows, [0, 1]


@shape
def doubling(n, rng):
    """Every e-class reads the next one twice: tree costs are powers of two."""
    rows = [(c, [c + 1, c + 1], rng.choice((1, 2))) for c in range(n) for _ in "ab"]
    return [*rows, (n, [], 1)], [0]


@shape
def self_loops(n, rng):
    rows = [(c, [c, *([c + 1] if c + 1 < n else [])], 0) for c in range(n)]
    rows += [(c, [c + 1] if c + 1 < n else [], rng.randint(0, 5)) for c in range(n)]
    return rows, [0]


@shape
def ring(n, rng):
    """One cycle through all e-classes, forth and back, with a leaf everywhere."""
    rows = [(c, [(c + s) % n], rng.randint(0, 3)) for c in range(n) for s in (1, -1)]
    return rows + [(c, [], rng.randint(50, 90)) for c in range(n)], [0, n // 2]


@shape
def tangle(n, rng):
    """Random e-nodes in one large component, with few leaves."""
    m = max(3, n // 4)
    rows = [
        (rng.randrange(m), [rng.randrange(m) for _ in range(rng.randint(1, 3))], rng.randint(0, 9))
        for _ in range(n)
    ]
    rows += [(c, [], rng.randint(20, 60)) for c in range(m)]
    return rows, [0, 1, m - 1]


@shape
def tangle_without_leaves(n, rng):
    m = max(3, n // 5)
    rows = [(c, [rng.randrange(m) for _ in range(2)], rng.randint(1, 9)) for c in range(m) for _ in range(4)]
    return [*rows, (m - 1, [], 1)], [m - 1, m - 1]


@shape
def free(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, 0) for c, kids, _ in rows], roots


@shape
def free_inside(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, 0 if kids else cost) for c, kids, cost in rows], roots


@shape
def expensive(n, rng):
    rows, _ = tangle(n, rng)
    m = 1 + max(c for c, _, _ in rows)
    return [*rows, (m, [0, 1], 1e12)], [m]


@shape
def huge(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, cost * 1e300 / n) for c, kids, cost in rows], roots


@shape
def tiny(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, cost * 1e-300) for c, kids, cost in rows], roots


@shape
def denormal(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, cost * 5e-324) for c, kids, cost in rows], roots


@shape
def mixed(n, rng):
    """Costs of very different sizes side by side."""
    rows, roots = tangle(n, rng)
    return [(c, kids, rng.random() * 10.0 ** rng.randint(-12, 12)) for c, kids, cost in rows], roots


@shape
def fractions(n, rng):
    """Costs that differ in the last digits only."""
    rows, roots = tangle(n, rng)
    return [(c, kids, 1 + rng.randint(0, 9) * 1e-9) for c, kids, _ in rows], roots


@shape
def gains(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, cost - 4) for c, kids, cost in rows], roots


@shape
def all_gains(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, -cost) for c, kids, cost in rows], roots


@shape
def huge_gains(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, (cost - 4) * 1e15) for c, kids, cost in rows], roots


@shape
def gains_in_a_ladder(n, rng):
    rows, roots = ladder(n, rng)
    return [(c, kids, cost - 5) for c, kids, cost in rows], roots


@shape
def forbidden(n, rng):
    """Half of the e-nodes are excluded; leaves stay."""
    rows, roots = tangle(n, rng)
    return [(c, kids, math.inf if kids and rng.random() < 0.5 else cost) for c, kids, cost in rows], roots


@shape
def forbidden_leaves(n, rng):
    rows, roots = tangle(n, rng)
    return [(c, kids, None if not kids and rng.random() < 0.8 else cost) for c, kids, cost in rows], roots


@shape
def unreachable(n, rng):
    rows, _ = tangle(n, rng)
    m = 1 + max(c for c, _, _ in rows)
    return [(m, [], 3), (m, [m + 1], 1), (m + 1, [], 1), *rows], [m]


@shape
def many_roots(n, rng):
    rows, _ = tangle(n, rng)
    return rows, sorted({c for c, _, _ in rows})


@shape
def root_many_times(n, rng):
    rows, _ = ladder(n, rng)
    return rows, [0] * n


@shape
def duplicates(n, rng):
    """Every e-node many times, at the same cost."""
    times = 20 if n > 20 else 2
    rows, roots = ladder(max(6, n // times), rng)
    return [row for row in rows for _ in range(times)], roots


@shape
def through_roots(n, rng):
    """Cycles that all pass through the roots, which read one another."""
    k = min(10, n)
    rows = [(r, [s, k + rng.randrange(n)], 1) for r in range(k) for s in range(k) if s != r]
    rows += [(k + c, [rng.randrange(k)], 1) for c in range(n)] + [(k + c, [], 5) for c in range(n)]
    return [*rows, *((r, [], 40) for r in range(k))], list(range(k))


@shape
def star(n, rng):
    rows = [(0, list(range(2, n + 2)), 1), (1, [], 1)] + [(c, [1], 1) for c in range(2, n + 2)]
    return rows, [0]


@shape
def star_of_choices(n, rng):
    """One e-node reads all e-classes, each of which reads one of a few shared ones."""
    k = max(2, int(math.sqrt(n)))
    rows = [(0, list(range(1, n + 1)), 0)]
    rows += [(c, [n + 1 + rng.randrange(k)], rng.randint(0, 2)) for c in range(1, n + 1) for _ in "abc"]
    return rows + [(n + 1 + c, [], rng.randint(3, 9)) for c in range(k)], [0]


@shape
def cover(n, rng):
    """A set cover: parts that share expensive leaves."""
    k = max(3, n // 12)
    rows = [(0, list(range(1, k + 1)), 0)]
    rows += [(c, [k + 1 + rng.randrange(k)], 0) for c in range(1, k + 1) for _ in range(10)]
    return rows + [(k + 1 + c, [], 1) for c in range(k)], [0]


@shape
def grid(n, rng):
    w = max(3, int(math.sqrt(n / 4)))
    rows = []
    for y in range(w):
        for x in range(w):
            for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1)):
                if 0 <= x + dx < w and 0 <= y + dy < w:
                    rows.append((y * w + x, [(y + dy) * w + x + dx], rng.randint(1, 9)))
    return [*rows, (w * w - 1, [], 1)], [0, w // 2, (w // 2) * w]


@shape
def complete(n, rng):
    """Every e-class reads every other one."""
    k = max(3, int(math.sqrt(n)))
    rows = [(c, [d], rng.randint(1, 99)) for c in range(k) for d in range(k)]
    return rows + [(c, [], 60) for c in range(k)], list(range(0, k, 3))


@shape
def fat(n, rng):
    """E-nodes with very many operands."""
    k = max(3, int(math.sqrt(n)))
    rows = [(c, rng.sample(range(k), k // 2), 1) for c in range(k) for _ in "ab"]
    return rows + [(c, [], rng.randint(1, 30)) for c in range(k)], [0]


@shape
def deep_and_wide(n, rng):
    """A long chain, each link of which has many alternatives that read a few later links."""
    k = max(2, n // 20)
    rows = [
        (c, [min(k, c + rng.randint(1, 4)) for _ in range(2)], rng.randint(1, 9))
        for c in range(k)
        for _ in range(20)
    ]
    return [*rows, (k, [], 1)], [0]


@shape
def deep_with_cycles(n, rng):
    k = max(2, n // 4)
    rows = [(c, [c + 1], rng.randint(1, 3)) for c in range(k)]
    rows += [(c, [max(0, c - rng.randint(0, 50)), c + 1], 0) for c in range(k)]
    rows += [(c, [min(k, c + 2), min(k, c + 40)], 1) for c in range(k)]
    return [*rows, (k, [], 1)], [0]


@shape
def without_term(n, rng):
    rows = [(c, [(c + 1) % n], 1) for c in range(n)]
    return rows, [0]


@shape
def equal_chains(n, rng):
    """Parallel chains of equal cost that share nothing."""
    k = max(2, n // 10)
    rows = [(0, [1 + a * k], 1) for a in range(10)]
    rows += [
        (1 + a * k + i, [1 + a * k + i + 1] if i + 1 < k else [], 1) for a in range(10) for i in range(k)
    ]
    return rows, [0]


@shape
def knapsack(n, rng):
    """Choices with sums that nearly agree: proofs by enumeration are long."""
    k = max(2, n // 6)
    rows = [(0, list(range(1, k + 1)), 0)]
    for c in range(1, k + 1):
        rows += [
            (c, [k + 1 + rng.randrange(2 * k), k + 1 + rng.randrange(2 * k)], rng.randint(10**6, 10**6 + 9))
            for _ in "abc"
        ]
    return rows + [(k + 1 + c, [], rng.randint(10**6, 10**6 + 99)) for c in range(2 * k)], [0]


def generated(name, n, seed=0):
    """Return a shape's rows and roots; the same for the same arguments."""
    return SHAPES[name](n, random.Random(f"{name} {n} {seed}"))
