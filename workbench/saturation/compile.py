"""Compile rewrite rules to egglog: patterns become queries, type rules become guards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from workbench.ops import ACTIVATIONS, Attr, spec_of
from workbench.ops.types import DTYPE_CODES
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    DimOf,
    DtypeOf,
    Literal,
    RankOf,
    Rule,
    Term,
    Var,
    Vector,
    subterms,
)
from workbench.rules.symmetry import canonical
from workbench.saturation.encoding import UNSTAMPED, Constructor, Encoding, column_sorts, literal, vector
from workbench.saturation.sharing import share
from workbench.saturation.symbolic import (
    Fact,
    Int,
    NeverApplies,
    NotSymbolic,
    Sym,
    SymbolicTyping,
    SymType,
    arith,
    compare,
)


class RuleCompileError(ValueError):
    """Say why a rule cannot be compiled: the rule, the term, what its type rule asks for."""


@dataclass(frozen=True, slots=True)
class Member:
    """Describe the relation that an ``each`` rule fills, one row per member.

    Its columns: the matched class, the shared and the starred tensor variables, then the columns of
    the attributes ``attrs``: (variable, or row variable and attribute; the attribute's declaration).
    """

    relation: str
    shared: tuple[str, ...]
    starred: tuple[str, ...]
    attrs: tuple[tuple[tuple[str, ...], Attr], ...]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """Hold a rule as egglog text.

    ``ruleset`` is its own; ``growth`` bounds the e-nodes that one match can add. For a rule of several
    roots ``counting`` is a twin that only collects its matches in a relation, and ``member`` describes
    the relation that an ``each`` rule fills for the driver to apply.
    """

    rule: Rule
    number: int
    ruleset: str
    text: str
    growth: int
    needs: tuple[Constructor, ...]
    makes: tuple[Constructor, ...]
    counting: str = ""
    member: Member | None = None


def identifier(name: str) -> str:
    """Return an egglog identifier for a rule's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()) + "_"


#: Names of the program's own: tables, and the classes of terms that a rule matches or makes.
_TAKEN: Final = re.compile(r"[kntl]\d+|e[a-h]|ht?|ty|clock|runs|constant")


def _named(variable: str) -> str:
    """Return the name that a tensor variable has in the program's text."""
    return f"v_{variable}_" if _TAKEN.fullmatch(variable) else f"{variable}_"


def constructor(term: App) -> Constructor:
    """Return the constructor of a pattern's application."""
    return Constructor(term.op, len(term.args))


@dataclass(slots=True)
class _Compiler:
    """Compile one rule."""

    rule: Rule
    number: int
    encoding: Encoding
    typing: SymbolicTyping
    query: list[str] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, Attr] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: dict[Term, tuple[str, SymType]] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)
    count: int = 0
    running: bool = False

    # -- left-hand side -----------------------------------------------------------------------
    def match(self, term: Term, name: str | None = None) -> tuple[str, SymType]:
        """Add a source pattern to the query; return its class variable and type."""
        if isinstance(term, Var):
            return self.variable(term)
        if term in self.made and name is None:
            return self.made[term]
        operands = [self.match(arg) for arg in term.args]
        if name is None:
            self.count += 1
            name = f"t{self.count}_"
        attrs, columns = self.bind_attrs(term)
        self.query.append(
            f"(= {name} ({constructor(term).name} {' '.join(columns + [o[0] for o in operands])}))"
        )
        kind = self.infer(term, attrs, [o[1] for o in operands], name)
        self.made.setdefault(term, (name, kind))
        return name, kind

    def variable(self, var: Var) -> tuple[str, SymType]:
        return _named(var.name), SymType(f"s_{_named(var.name)}")

    def infer(self, term: App, attrs: dict[str, Any], operands: list[SymType], name: str) -> SymType:
        spec = spec_of(term.op)
        try:
            if spec.infer is None:
                raise NotSymbolic(term.op)
            return spec.infer(self.typing, operands, attrs)
        except NotSymbolic as error:
            if not self.typing.assuming:
                raise RuleCompileError(
                    f"rule {self.rule.name}: the type of {term.op} on the right-hand side "
                    f"needs concrete numbers ({error})"
                ) from None
            return SymType(f"s_{name}")

    def bind_attrs(self, term: App) -> tuple[dict[str, Any], list[str]]:
        """Bind the attributes of a source term; return their values and query columns."""
        given = dict(term.attrs)
        values: dict[str, Any] = {}
        columns: list[str] = []
        for attr in spec_of(term.op).attrs:
            if attr.name in given:
                value = self.bind(given[attr.name], attr)
            elif term.row is not None:
                row = self.rows.setdefault(term.row, {})
                if attr.name not in row:
                    row[attr.name] = self.fresh(f"{term.row}_{attr.name}", attr)
                value = row[attr.name]
            else:
                value = self.constant(attr, attr.default)
            values[attr.name] = value
            columns += self.query_columns(attr, value)
        return values, columns

    def fresh(self, name: str, attr: Attr) -> Any:
        """Return variables for all columns of an attribute."""
        if attr.kind == "ints":
            return tuple(Sym(f"a_{name}_{'abcdefgh'[i]}_") for i in range(attr.length))
        return Sym(f"a_{name}_")

    def bind(self, expr: AttrExpr, attr: Attr) -> Any:
        if isinstance(expr, Literal):
            return self.constant(attr, expr.value)
        if isinstance(expr, AttrVar):
            if expr.name not in self.bound:
                self.bound[expr.name] = self.fresh(expr.name, attr)
                self.kinds[expr.name] = attr
            return self.bound[expr.name]
        if isinstance(expr, Vector):
            one = Attr(attr.name, "int")
            return tuple(self.bind(item, one) for item in expr.items)
        raise RuleCompileError(
            f"rule {self.rule.name}: {attr.name} on the left-hand side is a value or a variable"
        )

    def constant(self, attr: Attr, value: Any) -> Any:
        """Return a literal attribute as the type rules see it."""
        if value is None:
            raise RuleCompileError(f"rule {self.rule.name}: {attr.name} has no default; name it")
        if attr.kind == "act":
            return ACTIVATIONS.index(value)
        if attr.kind == "float":
            return Sym(literal(float(value)))
        if attr.kind == "str":
            return Sym(literal(value))
        if attr.kind == "ints" and isinstance(value, int):
            return (value,) * attr.length
        return value

    def query_columns(self, attr: Attr, value: Any) -> list[str]:
        """Return the columns of an attribute in a query or a head."""
        if attr.kind == "ints":
            return [str(v) for v in value]
        if attr.kind == "dtype" and isinstance(value, str):
            return [str(DTYPE_CODES[value])]
        if attr.kind in ("perm", "axes", "shape") and isinstance(value, tuple):
            text = vector(self.encoding.vector_of(attr, value)) if attr.kind != "shape" else None
            if text is None:
                raise RuleCompileError(f"rule {self.rule.name}: bind a shape to a variable")
            if not self.typing.assuming:
                return [text]
            name = f"l{len(self.query)}_"
            self.query.append(f"(= {name} {text})")
            return [name]
        return [str(value)]

    # -- expressions --------------------------------------------------------------------------
    def integer(self, expr: Any, attr: Attr | None = None) -> Any:
        """Return the value of an attribute expression on the right-hand side or in a condition."""
        if isinstance(expr, Literal):
            return self.constant(attr or Attr("value", "int"), expr.value)
        if isinstance(expr, AttrVar):
            return self.bound[expr.name]
        if isinstance(expr, Vector):
            return tuple(self.integer(item) for item in expr.items)
        if isinstance(expr, DimOf):
            return self.typing.dim(SymType(f"s_{_named(expr.var)}"), expr.axis)
        if isinstance(expr, RankOf):
            return self.typing.rank(SymType(f"s_{_named(expr.var)}"))
        if isinstance(expr, DtypeOf):
            return self.typing.get(SymType(f"s_{_named(expr.var)}"), 0)
        assert isinstance(expr, Arith)
        left, right = self.integer(expr.left, attr), self.integer(expr.right, attr)
        if expr.operator == "compose":
            return self.compose(left, right)
        if isinstance(left, tuple) or isinstance(right, tuple):
            size = len(left if isinstance(left, tuple) else right)
            lefts = left if isinstance(left, tuple) else (left,) * size
            rights = right if isinstance(right, tuple) else (right,) * size
            return tuple(self.arith(expr.operator, a, b) for a, b in zip(lefts, rights, strict=True))
        return self.arith(expr.operator, left, right)

    def arith(self, operator: str, left: Int, right: Int) -> Int:
        operator = "/" if operator == "//" else operator
        return arith(operator, self.typing.resolve(left), self.typing.resolve(right))

    def compose(self, p: Any, q: Any) -> Any:
        if isinstance(p, tuple) and isinstance(q, tuple):
            return tuple(p[i] for i in q)
        size = self.encoding.rank + 2
        texts = [vector(self.encoding.perm_vector(v)) if isinstance(v, tuple) else str(v) for v in (p, q)]
        moved = [f"(vec-get {texts[0]} (vec-get {texts[1]} {i}))" for i in range(2, size)]
        return Sym(vector(["0", f"(vec-get {texts[0]} 1)", *moved]))

    def attr_values(self, term: App) -> dict[str, Any]:
        """Return the attributes of a target term."""
        given = dict(term.attrs)
        values: dict[str, Any] = {}
        for attr in spec_of(term.op).attrs:
            if attr.name in given:
                value = self.integer(given[attr.name], attr)
                if attr.kind == "ints" and not isinstance(value, tuple):
                    value = (value,) * attr.length
            elif term.row is not None and attr.name in self.rows.get(term.row, {}):
                value = self.rows[term.row][attr.name]
            else:
                value = self.constant(attr, attr.default)
            values[attr.name] = value
        return values

    # -- right-hand side ----------------------------------------------------------------------
    def build(self, term: Term) -> tuple[str, SymType]:
        """Add a target term to the head; return its class variable and type."""
        if isinstance(term, Var):
            return self.variable(term)
        if term in self.made:
            return self.made[term]
        operands = [self.build(arg) for arg in term.args]
        attrs = self.attr_values(term)
        self.count += 1
        name = f"n{self.count}_"
        kind = self.infer(term, attrs, [o[1] for o in operands], name)
        columns: list[str] = []
        for attr in spec_of(term.op).attrs:
            if attr.kind == "shape":  # in the e-graph it is the type of the result
                columns.append(self.typing.text(kind))
            else:
                columns += self.query_columns(attr, attrs[attr.name])
        text = " ".join(columns + [o[0] for o in operands])
        made = constructor(term)
        self.head.append(f"(let {name} ({made.name} {text}))")
        self.head.append(f"(set (ty_ {name}) {self.typing.text(kind)})")
        self.head.append(f"(set ({made.born} {text}) {UNSTAMPED + self.number})")
        self.made[term] = (name, kind)
        return name, kind

    def conditions(self) -> None:
        """Add the rule's own conditions to the guards."""
        for condition in self.rule.conditions:
            left, right = self.integer(condition.left), self.integer(condition.right)
            lefts = left if isinstance(left, tuple) else (left,)
            rights = right if isinstance(right, tuple) else (right,) * len(lefts)
            for a, b in zip(lefts, rights, strict=True):
                fact = compare(condition.relation, self.typing.resolve(a), self.typing.resolve(b))
                self.typing.require(fact, f"condition {condition}")

    def type_facts(self, texts: Iterable[str]) -> list[str]:
        """Return the facts that bind every type variable that the texts mention."""
        names = sorted(set(re.findall(r"\bs_(\w+_)(?![\w])", " ".join(texts))))
        return [f"(= s_{n} (ty_ {n}))" for n in names]


def _variables(rule: Rule) -> tuple[list[str], list[str]]:
    shared: dict[str, None] = {}
    starred: dict[str, None] = {}
    for source in rule.sources:
        for sub in subterms(source):
            if isinstance(sub, Var):
                (starred if sub.starred else shared).setdefault(sub.name)
    return list(shared), list(starred)


def _symmetric(rule: Rule) -> bool:
    """Say whether exchanging the two sources is a renaming of the rule's variables."""
    if len(rule.sources) != 2:
        return False
    forward = canonical(rule.sources, rule.conditions)
    return forward == canonical(rule.sources[::-1], rule.conditions)


@lru_cache(maxsize=4096)
def compile_rule(rule: Rule, number: int, encoding: Encoding, running: bool = False) -> CompiledRule | None:
    """Compile a rule; return None where its guard can never hold under this encoding.

    With ``running`` it rewrites only what depends on an input, unless it makes a term smaller: weight-only
    terms cost nothing, so that a second form of one is only more to match.
    """
    c = _Compiler(rule, number, encoding, SymbolicTyping(encoding), running=running and not _shrinks(rule))
    try:
        if rule.each:
            return _compile_each(c)
        return _compile(c)
    except NeverApplies:
        return None


def _uses(rule: Rule) -> list[str]:
    """Return the facts that say where a rule is of use."""
    facts = [f"(constant_ {_named(name)})" for name in rule.constants]
    facts += [f"(runs_ {_named(name)})" for name in rule.running]
    return facts + [f"(!= {_named(a)} {_named(b)})" for a, b in rule.distinct]


def _shrinks(rule: Rule) -> bool:
    """Say whether every target has fewer operators than its source."""
    return not rule.each and all(
        _applications(t) < _applications(s) for s, t in zip(rule.sources, rule.targets, strict=True)
    )


def _applications(term: Term) -> int:
    return sum(isinstance(t, App) for t in subterms(term))


def _compile(c: _Compiler) -> CompiledRule:
    rule = c.rule
    kinds = [c.match(source, f"e{'abcdefgh'[i]}_")[1] for i, source in enumerate(rule.sources)]
    roots = [f"e{'abcdefgh'[i]}_" for i in range(len(rule.sources))]
    c.typing.assuming = False
    c.conditions()
    # A target equal to its source is context only: it is matched, and stays.
    for i, (source, target) in enumerate(zip(rule.sources, rule.targets, strict=True)):
        if source == target:
            continue
        name, kind = c.build(target)
        left, right = c.typing.text(kinds[i]), c.typing.text(kind)
        if left != right:
            c.typing.require(Fact("", f"(= s_{roots[i]} {right})"), "both sides have one type")
        # The root's own type vector stands for the equal expression: nothing is built anew.
        if right.startswith("("):
            c.head = [line.replace(f") {right})", f") s_{roots[i]})") for line in c.head]
        c.head.append(f"(union {roots[i]} {name})")
    facts = list(c.query)
    if c.running:
        facts += [f"(runs_ {root})" for root in roots]
    facts += _uses(rule)
    if len(roots) > 1:
        facts += [f"(!= {a} {b})" for i, a in enumerate(roots) for b in roots[i + 1 :]]
        if _symmetric(rule):
            facts.append(f"(= {roots[0]} (ordering-min {roots[0]} {roots[1]}))")
    facts += c.type_facts([*c.typing.guards, *c.head]) + c.typing.guards
    facts, head = share(facts, c.head)
    ruleset = f"rs_{identifier(rule.name)}"
    text = (
        f"(ruleset {ruleset})\n(rule ({' '.join(facts)})\n      ({' '.join(head)})\n"
        f'      :ruleset {ruleset} :name "{rule.name}")'
    )
    counting = ""
    if len(roots) > 1:
        # One row per match: the roots and every variable of the patterns.
        shared, _ = _variables(rule)
        columns = " ".join(["T"] * (len(roots) + len(shared)))
        row = " ".join([*roots, *map(_named, shared)])
        counting = (
            f"(relation count_{ruleset} ({columns}))\n(ruleset count_rs_{ruleset})\n"
            f"(rule ({' '.join(facts)}) ((count_{ruleset} {row})) :ruleset count_rs_{ruleset}"
            f' :name "count {rule.name}")'
        )
    targets = [t for s, t in zip(rule.sources, rule.targets, strict=True) if s != t]
    return CompiledRule(
        rule,
        c.number,
        ruleset,
        text,
        sum(line.startswith("(let n") for line in head),
        _constructors(rule.sources),
        _constructors(targets),
        counting,
    )


def _compile_each(c: _Compiler) -> CompiledRule:
    rule = c.rule
    c.match(rule.sources[0], "ea_")
    c.typing.assuming = False
    c.conditions()
    shared, starred = _variables(rule)
    attrs: list[tuple[tuple[str, ...], Attr]] = []
    values: list[Any] = []
    for name, value in c.bound.items():
        attrs.append(((name,), c.kinds[name]))
        values.append(value)
    ops = {t.row: t.op for t in subterms(rule.sources[0]) if isinstance(t, App) and t.row}
    for row, given in c.rows.items():
        for attr in spec_of(ops[row]).attrs:
            if attr.name in given:
                attrs.append(((row, attr.name), attr))
                values.append(given[attr.name])
    tensors = ["ea_", *map(_named, [*shared, *starred])]
    flat = [str(i) for v in values for i in (v if isinstance(v, tuple) else (v,))]
    sorts = ["T"] * len(tensors) + [sort for _, attr in attrs for sort in column_sorts(attr)]
    running = ["(runs_ ea_)"] if c.running else []
    running += _uses(rule)
    facts, _ = share(c.query + running + c.type_facts(c.typing.guards) + c.typing.guards, ())
    ruleset = f"rs_{identifier(rule.name)}"
    relation = f"members_{ruleset}"
    text = (
        f"(relation {relation} ({' '.join(sorts)}))\n(ruleset {ruleset})\n"
        f"(rule ({' '.join(facts)}) (({relation} {' '.join(tensors + flat)}))"
        f' :ruleset {ruleset} :name "{rule.name}")'
    )
    member = Member(relation, tuple(shared), tuple(starred), tuple(attrs))
    merged = rule.targets[0]
    growth = sum(isinstance(t, App) for t in subterms(merged)) + 1
    return CompiledRule(rule, c.number, ruleset, text, growth, _constructors(rule.sources), (), "", member)


def _constructors(terms: Iterable[Term]) -> tuple[Constructor, ...]:
    found = {constructor(t) for term in terms for t in subterms(term) if isinstance(t, App)}
    return tuple(sorted(found))


def usable(rules: Sequence[CompiledRule], present: Iterable[Constructor]) -> list[CompiledRule]:
    """Return the rules that can ever match in a graph of these constructors, in order."""
    available = set(present)
    chosen: set[int] = set()
    while True:
        more = [r for r in rules if r.number not in chosen and all(n in available for n in r.needs)]
        if not more:
            return [r for r in rules if r.number in chosen]
        for r in more:
            chosen.add(r.number)
            available.update(r.makes)
            if r.member is not None:
                # A merge of k members joins k operands at once.
                available.update(
                    Constructor(t.op, len(t.args))
                    for t in subterms(r.rule.targets[0])
                    if isinstance(t, App) and not any(isinstance(a, Var) and a.starred for a in t.args)
                )
