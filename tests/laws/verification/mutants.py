"""Mutants of rules: small changes that make most laws wrong, and an evaluation apart from the verifier's."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from workbench.graph import GraphBuilder
from workbench.graph.evaluate import evaluate
from workbench.laws.verification.instances.spaces import Ground, Instance
from workbench.laws.verification.refuting.sampling import draw_instance
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules import parse_rule
from workbench.rules.pattern import App, Arith, Compare, Literal, Rule, Var, Vector, format_rule, subterms

RELATIONS = {"=": "!=", "!=": "=", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
SIGNS = {"+": "-", "-": "+", "*": "+", "//": "*", "%": "//", "max": "min", "min": "max"}
ALIKE = (
    ("add", "mul", "sub", "max", "min"),
    ("relu", "sigmoid", "tanh", "neg"),
    ("reduce_sum", "reduce_mean", "reduce_max"),
)
ACTS = ("none", "relu", "sigmoid", "tanh")


# -- one change -------------------------------------------------------------------------------------
def changed_exprs(expr) -> Iterator:
    """Yield the expressions that differ from one in a number or a sign."""
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        yield Literal(expr.value + 1)
        yield Literal(expr.value - 1)
    elif isinstance(expr, Literal) and expr.value in ACTS:
        yield from (Literal(a) for a in ACTS if a != expr.value)
    elif isinstance(expr, Literal) and isinstance(expr.value, tuple) and len(expr.value) > 1:
        yield Literal((*expr.value[1:], expr.value[0]))
    elif isinstance(expr, Vector):
        for i, item in enumerate(expr.items):
            for other in changed_exprs(item):
                yield Vector((*expr.items[:i], other, *expr.items[i + 1 :]))
        if len(expr.items) > 1:
            yield Vector((expr.items[1], expr.items[0], *expr.items[2:]))
    elif isinstance(expr, Arith):
        if expr.operator in SIGNS:
            yield replace(expr, operator=SIGNS[expr.operator])
        yield from (replace(expr, left=other) for other in changed_exprs(expr.left))
        yield from (replace(expr, right=other) for other in changed_exprs(expr.right))


def changed_terms(term, names) -> Iterator:
    """Yield the terms that differ from a given one by an operand, an operator or an attribute."""
    if isinstance(term, Var):
        yield from (Var(name) for name in names if name != term.name and not term.starred)
        return
    for i, (name, expr) in enumerate(term.attrs):
        for other in changed_exprs(expr):
            yield replace(term, attrs=(*term.attrs[:i], (name, other), *term.attrs[i + 1 :]))
        yield replace(term, attrs=(*term.attrs[:i], *term.attrs[i + 1 :]))
    for same in ALIKE:
        if term.op in same:
            yield from (replace(term, op=op) for op in same if op != term.op)
    if len(term.args) > 1:
        yield replace(term, args=(term.args[1], term.args[0], *term.args[2:]))
        if len(term.args) > spec_of(term.op).min_inputs:
            yield replace(term, args=term.args[:-1])
    if len(term.args) == 1 and not isinstance(term.args[0], Var):
        yield term.args[0]
    for i, arg in enumerate(term.args):
        for other in changed_terms(arg, names):
            yield replace(term, args=(*term.args[:i], other, *term.args[i + 1 :]))


def changed_conditions(conditions) -> Iterator:
    """Yield the conditions without one of them, or with one changed."""
    for i, one in enumerate(conditions):
        rest = (conditions[:i], conditions[i + 1 :])
        yield (*rest[0], *rest[1])
        yield (*rest[0], Compare(RELATIONS[one.relation], one.left, one.right), *rest[1])
        for other in changed_exprs(one.right):
            yield (*rest[0], Compare(one.relation, one.left, other), *rest[1])


def mutants_of(rule: Rule) -> list[Rule]:
    """Return the rules that differ from one in a single place and can be written."""
    names = list(dict.fromkeys(t.name for s in rule.sources for t in subterms(s) if isinstance(t, Var)))
    changed = [replace(rule, conditions=found) for found in changed_conditions(rule.conditions)]
    for i, target in enumerate(rule.targets):
        others = changed_terms(target, names)
        changed += [replace(rule, targets=(*rule.targets[:i], t, *rule.targets[i + 1 :])) for t in others]
    if len(rule.targets) > 1:
        changed.append(replace(rule, targets=rule.targets[::-1]))
    found = []
    for number, mutant in enumerate(changed):
        if mutant.targets == mutant.sources or not all(isinstance(t, App | Var) for t in mutant.targets):
            continue
        bare = replace(mutant, name=f"{rule.name}-{number}", provenance=())
        try:
            (read,) = parse_rule(format_rule(bare))
        except ValueError:
            continue
        found.append(read)
    return found


def mutants(rules, count, rng) -> list[Rule]:
    """Return random mutants, at most one of each rule."""
    chosen, found = list(rules), []
    rng.shuffle(chosen)
    for rule in chosen:
        several = mutants_of(rule)
        if several and len(found) < count:
            found.append(rng.choice(several))
    return found


# -- the evaluation ---------------------------------------------------------------------------------
def sides(instance: Instance, rng) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the values of both sides of an instance, in numpy's floating-point numbers."""
    ground = Ground()
    pairs = ground.add(instance)
    inputs = {}
    for name, i in ground.leaves.items():
        kind: TensorType = ground.builder.nodes[i].tensor
        inputs[name] = rng.integers(-4, 5, kind.shape).astype(kind.dtype)
    return values(ground.builder, pairs, inputs)


def values(builder: GraphBuilder, pairs, inputs):
    """Return the values of pairs of nodes."""
    outputs = {f"{side}{k}": pair[j] for k, pair in enumerate(pairs) for j, side in enumerate("lr")}
    used = set()
    stack = [i for pair in pairs for i in pair]
    while stack:
        i = stack.pop()
        if i not in used:
            used.add(i)
            stack += builder.nodes[i].inputs
    graph = builder.graph(outputs)
    kept = {node.attr("name") for node in graph.nodes if node.op == "input"}
    with np.errstate(all="ignore"):
        found = evaluate(graph, {n: v for n, v in inputs.items() if n in kept}, precise=True)
    return [(found[f"l{k}"], found[f"r{k}"]) for k in range(len(pairs))]


def far(left, right) -> bool:
    """Return whether two results differ at a place where both are numbers."""
    with np.errstate(all="ignore"):
        both = np.isfinite(left) & np.isfinite(right)
        scale = max(1.0, float(np.abs(left[both]).max(initial=0.0)))
        return bool((np.abs(left - right)[both] > 1e-6 * scale).any())


def wrong(rule: Rule, rng, random, tries=60) -> str:
    """Return an instance on which the sides of a rule differ, empty if none was found."""
    for _ in range(tries):
        try:
            instance = draw_instance(rule, random)
            if instance is not None and any(far(*pair) for pair in sides(instance, rng)):
                return f"{dict(instance.types)} {instance.settings()}"
        except (TypeMismatch, ZeroDivisionError, ValueError):
            continue
    return ""
