"""A search that knows nothing of the one under test: terms, rewritten wherever a rule matches, to the end."""

from workbench.costs import graph_cost
from workbench.graph import GraphBuilder
from workbench.ops import TypeMismatch, spec_of
from workbench.rules.interpret import evaluate, holds
from workbench.rules.pattern import AttrVar, Literal, Var, Vector


def reachable_graphs(graph, rules, most=5000):
    """Return every graph that the rules lead to, by structural hash."""
    start = terms_of(graph)
    seen, stack = {start}, [start]
    while stack:
        outputs = stack.pop()
        for rule in rules:
            for after in rewritten(outputs, rule):
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
                    assert len(seen) <= most
    graphs = [graph_of(terms, graph) for terms in seen]
    return {g.structural_hash(): g for g in graphs}


def least_cost(graphs, model):
    return min(graph_cost(g, model) for g in graphs.values())


def terms_of(graph):
    """Return the outputs as nested tuples (operator, attributes, type, operands)."""
    terms = []
    for node in graph.nodes:
        terms.append((node.op, node.attrs, node.type, tuple(terms[i] for i in node.inputs)))
    return tuple(terms[i] for i in graph.output_ids)


def graph_of(outputs, like):
    b = GraphBuilder(like.name)
    b.weights = dict(like.weights)
    names = {}
    for i in like.inputs:
        node = like.nodes[i]
        names[node.attr("name")] = b.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)

    def place(term):
        op, attrs, _, args = term
        return names[attrs[0]] if op == "input" else b.apply(op, [place(a) for a in args], attrs)

    return b.graph([(name, place(t)) for (name, _), t in zip(like.outputs, outputs, strict=True)])


def subterms(term):
    yield term
    for arg in term[3]:
        yield from subterms(arg)


def replaced(term, pairs):
    if term in pairs:
        return pairs[term]
    return (*term[:3], tuple(replaced(a, pairs) for a in term[3]))


def rewritten(outputs, rule):
    places = list(dict.fromkeys(t for root in outputs for t in subterms(root)))
    partial = [((), {})]
    for source in rule.sources:
        partial = [
            ((*roots, place), bound)
            for roots, known in partial
            for place in places
            if place not in roots and (bound := matched(source, place, dict(known))) is not None
        ]
    for roots, bound in partial:
        try:
            if not all(
                holds(c, lambda n, b=bound: b["@" + n], lambda n, b=bound: b[n][2]) for c in rule.conditions
            ):
                continue
            targets = [built(t, bound) for t in rule.targets]
        except (TypeMismatch, ZeroDivisionError):
            continue
        if any(t[2] != r[2] for t, r in zip(targets, roots, strict=True)):
            continue
        pairs = {r: t for r, t in zip(roots, targets, strict=True) if r != t}
        if len(roots) > 1 and any(r in subterms(t) for r in pairs for t in pairs.values()):
            continue  # one root would depend on what replaces another
        after = tuple(replaced(o, pairs) for o in outputs)
        if after != outputs:
            yield after


def matched(pattern, term, bound):
    if isinstance(pattern, Var):
        return bound if bound.setdefault(pattern.name, term) == term else None
    op, attrs, _, args = term
    if op != pattern.op or len(args) != len(pattern.args):
        return None
    given = dict(pattern.attrs)
    for attr, value in zip(spec_of(op).attrs, attrs, strict=True):
        if attr.name in given:
            expr = given[attr.name]
            if isinstance(expr, Literal):
                wanted = attr.check(expr.value, op)
            elif isinstance(expr, Vector):
                wanted = tuple(
                    bound.setdefault("@" + e.name, v) if isinstance(e, AttrVar) else e.value
                    for e, v in zip(expr.items, value, strict=True)
                )
            else:
                wanted = bound.setdefault("@" + expr.name, value)
        elif pattern.row:
            wanted = bound.setdefault(f"#{pattern.row}.{attr.name}", value)
        else:
            wanted = attr.default
        if wanted != value:
            return None
    for arg, operand in zip(pattern.args, args, strict=True):
        if matched(arg, operand, bound) is None:
            return None
    return bound


def built(target, bound):
    if isinstance(target, Var):
        return bound[target.name]
    spec = spec_of(target.op)
    args = tuple(built(a, bound) for a in target.args)
    given = {
        n: evaluate(e, lambda name: bound["@" + name], lambda name: bound[name][2]) for n, e in target.attrs
    }
    for attr in spec.attrs:
        if attr.name not in given and target.row and f"#{target.row}.{attr.name}" in bound:
            given[attr.name] = bound[f"#{target.row}.{attr.name}"]
    attrs = spec.pack(given)
    return (target.op, attrs, spec.result_type([a[2] for a in args], attrs), args)
