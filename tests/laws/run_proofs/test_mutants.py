"""Changed proofs, models and rule files, drawn with a seed: none is accepted."""

import copy
import json
import random
import re
import shutil
import zlib
from dataclasses import replace

import onnx
import pytest

import workbench
from tests.frontends.symbolic_models import heads
from workbench.frontends import save_model
from workbench.graph import GraphError
from workbench.graph.weights import Weight
from workbench.laws.run_proofs import MalformedProof, NotAccepted, RunProof, checking, prove
from workbench.laws.run_proofs.proof import law_digest
from workbench.laws.run_proofs.sizes import Sized, read_plainly
from workbench.laws.theorems import store
from workbench.ops import TypeMismatch, spec_of
from workbench.rules.verdicts import law_of, library
from workbench.studies.benchmarks.light import light_model

from .models import attention, block

#: Operators whose operands may be exchanged.
COMMUTATIVE = ("add", "mul", "max", "min", "equal", "and", "or")
#: Operators of rules, each with one that takes its place.
OTHERS = {"add": "sub", "mul": "add", "sub": "add", "div": "mul", "relu": "tanh", "reshape": "broadcast_to",
          "conv2d": "conv", "matmul": "add", "transpose": "reshape", "slice": "concat", "concat": "slice"}  # fmt: skip


def bert():
    """Return a transformer with an open batch and length, as torch exports it."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    from tests.symbolic.torch_models import exported

    return onnx.load_from_string(exported("bert", dynamo=False))


def squeezenet():
    """Return a convolutional network of the zoo of ONNX."""
    return light_model("squeezenet")


class Run:
    """The two sides of a run and its proof as data, with a kind of mutation by name."""

    def __init__(self, make, folder):
        given, saved = folder / "given.onnx", folder / "saved.onnx"
        model = make()
        onnx.save(model, given) if isinstance(model, onnx.ModelProto) else save_model(model, given)
        result = workbench.optimize(given, cost="analytic", time=False, certify=False, seconds=300)
        result.save(saved)
        self.data = json.loads(prove(result, given, saved).text())
        first = read_plainly(given)
        self.sides = [first, read_plainly(saved, None, first)]
        assert self.accepted(self.sides, self.data)
        assert len(self.data["steps"]) >= 2

    def accepted(self, sides, data):
        try:
            checking.check_graphs(*sides, RunProof.read(json.dumps(data)))
        except (NotAccepted, MalformedProof):
            return False
        return True

    def mutant(self, kind, rng):
        """Return sides and data with one change, and what was changed; None if there is nothing to change."""
        try:
            return getattr(self, f"_{kind}")(rng)
        except (LookupError, GraphError, TypeMismatch, ValueError):
            return None

    def _on_side(self, rng, change):
        k = rng.randrange(2)
        graph = change(self.sides[k].graph)
        sides = [Sized(graph, s.generic) if i == k else s for i, s in enumerate(self.sides)]
        return sides, self.data

    def _weight(self, rng):
        def change(graph):
            live = zip(graph.nodes, graph.reachable(), strict=True)
            names = [str(n.attrs[0]) for n, there in live if n.op == "weight" and there]
            # A bias of keys shifts all scores of a row alike, which a softmax does not see: such a mutant is equal.
            name = rng.choice([name for name in names if not name.endswith(".k.bias")])
            data = graph.weights[name].value().copy()
            at = rng.randrange(data.size)
            flat = data.reshape(-1)
            flat[at] = ~flat[at] if data.dtype == bool else flat[at] + 1
            return replace(graph, weights={**graph.weights, name: Weight.of(data)})

        return self._on_side(rng, change)

    def _with_node(self, rng, change):
        def changed(graph):
            i = rng.choice([i for i, live in enumerate(graph.reachable()) if live])
            node = change(graph.nodes[i])
            return replace(graph, nodes=(*graph.nodes[:i], node, *graph.nodes[i + 1 :]))

        return self._on_side(rng, changed)

    def _operands(self, rng):
        def change(node):
            if len(node.inputs) < 2 or node.op in COMMUTATIVE or node.inputs[0] == node.inputs[1]:
                raise LookupError
            return replace(node, inputs=(node.inputs[1], node.inputs[0], *node.inputs[2:]))

        return self._with_node(rng, change)

    def _attribute(self, rng):
        def change(node):
            places = [k for k, v in enumerate(node.attrs) if not isinstance(v, str)]
            k = rng.choice(places)
            attrs = (*node.attrs[:k], other(node.attrs[k], rng, []), *node.attrs[k + 1 :])
            spec_of(node.op).pack(dict(zip(spec_of(node.op).attr_names, attrs, strict=True)))
            return replace(node, attrs=attrs)

        return self._with_node(rng, change)

    def _step(self, rng):
        k = rng.randrange(len(self.data["steps"]))
        return self.sides, {**self.data, "steps": self.data["steps"][:k] + self.data["steps"][k + 1 :]}

    def _text(self, rng):
        data = copy.deepcopy(self.data)
        part = data[rng.choice(["steps", "terms", "laws"])]
        while True:
            key = rng.choice([*part] if isinstance(part, dict) else range(len(part))) if part else None
            if key is None:
                return None
            if not isinstance(part[key], dict | list):
                part[key] = other(part[key], rng, [name for name, *_ in data["laws"]])
                return self.sides, data
            part = part[key]

    def _size(self, rng):
        data = copy.deepcopy(self.data)
        sizes = re.findall(r'\{"size": [^{}]*\}', text := json.dumps(data))
        if not sizes:
            return None
        own = [f'"{name}"' for name in self.sides[0].generic.primes]
        new = (
            '{"size": ' + rng.choice([*own, str(rng.randrange(1, 99)), f'["+", {rng.choice(own)}, 1]']) + "}"
        )
        k, parts = rng.randrange(len(sizes)), re.split(r'\{"size": [^{}]*\}', text)
        sizes[k] = new
        return self.sides, json.loads("".join(a + b for a, b in zip(parts, [*sizes, ""], strict=True)))

    def _law(self, rng):
        laws = copy.deepcopy(self.data["laws"])
        law = rng.choice(laws)
        other_law = rng.choice(store.rules_of("axioms"))
        changes = (
            lambda: law.__setitem__(2, law_of(other_law)),  # the hash is kept
            lambda: law.__setitem__(3, law[3][::-1]),
            lambda: law.__setitem__(slice(2, 4), [law_of(other_law), law_digest(other_law)]),
            lambda: law.__setitem__(0, other_law.name),
        )
        rng.choice(changes)()
        return self.sides, {**self.data, "laws": laws}


def other(value, rng, names):
    """Return a value of the same kind that differs."""
    if isinstance(value, tuple):
        k = rng.randrange(len(value))
        return (*value[:k], other(value[k], rng, names), *value[k + 1 :])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-1, 1, 2])
    if isinstance(value, float):
        return value * 1.5 + 1
    return rng.choice([n for n in names if n != value] or [f"{value}x"])


KINDS = ("weight", "operands", "attribute", "step", "text", "size", "law", "file")


def with_changed_file(run, rng, folder, patch):
    """Check a proof with a library in which one of its laws is another, in its file and in the proof."""
    data = copy.deepcopy(run.data)
    law = rng.choice(data["laws"])
    name, file = law[:2]
    for used in {used for _, used, *_ in data["laws"]}:
        shutil.copy(library() / used, folder / used)
    lines = (folder / file).read_text().splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith(f"{name}:")), None)
    head, arrow, tail = ("", "", "") if at is None else lines[at].partition("=>")
    words = [w for w in OTHERS if re.search(rf"\b{w}\(", tail)]
    if at is None or not words:
        return None
    word = rng.choice(words)
    lines[at] = head + arrow + re.sub(rf"\b{word}\(", f"{OTHERS[word]}(", tail, count=1)
    (folder / file).write_text("\n".join(lines) + "\n")
    with patch.context() as here:
        here.setattr(checking, "library", lambda: folder)
        here.setattr(store, "library", lambda: folder)
        checking._rules_in.cache_clear()
        try:
            rule = {r.name: r for r in store.rules_of(file.removesuffix(".rules"))}[name]
        except ValueError:
            return None
        if rng.random() < 0.7:
            law[2:] = [law_of(rule), law_digest(rule)]
        found = run.accepted(run.sides, data)
    checking._rules_in.cache_clear()
    return found


def mutated(run, count, seed, tmp_path, patch):
    """Draw as many mutants of a run and check that none is accepted; return their number by kind."""
    rng, drawn = random.Random(seed), dict.fromkeys(KINDS, 0)
    for attempt in range(20 * count):
        if sum(drawn.values()) == count:
            break
        kind = KINDS[attempt % len(KINDS)]
        if kind == "file":
            accepted = with_changed_file(run, rng, tmp_path, patch)
            if accepted is None:
                continue
            what = None
        else:
            what = run.mutant(kind, rng)
            if what is None or what == (run.sides, run.data):
                continue
            accepted = run.accepted(*what)
        drawn[kind] += 1
        assert not accepted, (kind, attempt, what and what[1] != run.data)
    assert sum(drawn.values()) == count
    return drawn


@pytest.mark.slow
@pytest.mark.parametrize("make", [attention, heads])
def test_a_mutant_is_not_accepted(make, tmp_path, monkeypatch):
    drawn = mutated(Run(make, tmp_path), 40, 0, tmp_path, monkeypatch)
    assert sum(n > 0 for n in drawn.values()) >= 5


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("make", "count"), [(block, 250), (attention, 250), (heads, 250), (squeezenet, 150), (bert, 100)]
)
def test_none_of_a_thousand_mutants_is_accepted(make, count, tmp_path, monkeypatch):
    seed = zlib.crc32(make.__name__.encode())
    print(make.__name__, mutated(Run(make, tmp_path), count, seed, tmp_path, monkeypatch))
