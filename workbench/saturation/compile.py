"""Compile rewrite rules to egglog: patterns become queries, type rules become guards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from workbench.ops import Attr, Trait, spec_of
from workbench.ops.registry import replacements
from workbench.ops.types import DTYPE_CODES
from workbench.rules import interpret
from workbench.rules.interpret import NUMBER, Bound, NotBinding, Number, RowAttr
from workbench.rules.pattern import App, AttrVar, Rule, Term, Var, applications, subterms, symmetric
from workbench.saturation import symbolic
from workbench.saturation.encoding import UNSTAMPED, Constructor, Encoding, column_sorts
from workbench.saturation.program import EgglogRule, identifier, literal, named, share, vector
from workbench.saturation.rule_prefilter import constructor, made, needed
from workbench.saturation.symbolic import (
    NeverApplies,
    NotSymbolic,
    Size,
    Sym,
    SymbolicTyping,
    SymType,
    opaque,
)

#: The phase of the laws of movement.
MOVEMENT: Final = "movement"


def sinks(rule: Rule) -> bool:
    """Return whether a law of movement computes with a part what its source takes the part from.

    Such a rule must not push a slice below a value that is computed in full anyway. Slicing that value is
    free, whereas a slice that is pushed down recomputes its part. In a deep encoder read at one row, that row
    would otherwise sink through every layer, although the keys and values of the last need all rows.
    """
    if rule.multi or rule.phase != MOVEMENT:
        return False
    (source,), (target,) = rule.sources, rule.targets
    if not isinstance(source, App) or Trait.CUTS not in spec_of(source.op).traits:
        return False
    return any(Trait.VIEW not in spec_of(t.op).traits for t in applications(target))


class RuleCompileError(ValueError):
    """Raised when a rule cannot be compiled; the message names the rule, the term and the reason."""


@dataclass(frozen=True, slots=True)
class Member:
    """The relation that an ``each`` rule fills, one row per member.

    Its columns are the matched class, the shared and the starred tensor variables, and the columns of
    the attributes ``attrs``: (variable, or row variable and attribute; the attribute's declaration).
    """

    relation: str
    shared: tuple[str, ...]
    starred: tuple[str, ...]
    attrs: tuple[tuple[tuple[str, ...], Attr], ...]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule as a rule of egglog.

    ``growth`` bounds the number of e-nodes that one match can add. For a
    rule of several roots, ``counting`` is a twin that only collects its matches in a relation, and
    ``member`` describes the relation that an ``each`` rule fills for the engine to apply.
    """

    rule: Rule
    number: int
    program: EgglogRule
    growth: int
    needs: tuple[Constructor, ...]
    makes: tuple[Constructor, ...]
    counting: EgglogRule | None = None
    member: Member | None = None

    @property
    def ruleset(self) -> str:
        """Return the name of the rule's own rule set."""
        return self.program.ruleset

    @property
    def text(self) -> str:
        """Return the program text of the rule and of the twin that counts its matches."""
        return f"{self.program}\n{self.counting or ''}"


@dataclass(slots=True)
class _Compiler(Bound):
    """The algebra of one rule's program text: a tensor is a class variable and its type."""

    rule: Rule
    number: int
    encoding: Encoding
    typing: SymbolicTyping
    query: list[str] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, Attr] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: dict[Term, tuple[str, SymType]] = field(default_factory=dict)
    numbers: dict[str, Number] = field(default_factory=dict)
    count: int = 0
    running: bool = False
    whole: str = ""

    # -- terms --------------------------------------------------------------------------------
    def match(self, term: App, name: str) -> SymType:
        """Add a source to the query, its root by a name; return its type."""
        operands = interpret.arguments(
            term, self, lambda arg: interpret.bound_term(arg, self, made=self.made)
        )
        if Trait.CUTS in spec_of(term.op).traits:
            self.whole = operands[0][0]
        found = self.matched(term, operands, interpret.bound_attributes(term, self), name)
        self.made.setdefault(term, found)
        return found[1]

    def build(self, term: Term) -> tuple[str, SymType]:
        """Add a target to the head; return its class variable and type."""
        return interpret.read_term(term, self, made=self.made)

    def variable(self, name: str) -> tuple[str, SymType]:
        """Return the class variable and the type of a tensor variable."""
        return named(name), self.type(name)

    def starred(self, name: str) -> list[tuple[str, SymType]]:
        """Return the one tensor that a starred variable represents: a match is of one member."""
        return [self.variable(name)]

    def type(self, name: str) -> SymType:
        """Return the type of a tensor variable."""
        return SymType(f"s_{named(name)}")

    def apply(
        self, term: App, operands: list[tuple[str, SymType]], attrs: dict[str, Any]
    ) -> tuple[str, SymType]:
        """Add an application to the query, or to the head once the query is complete."""
        self.count += 1
        if self.typing.assuming:
            return self.matched(term, operands, attrs, f"t{self.count}_")
        return self.inserted(term, operands, attrs, f"n{self.count}_")

    def matched(
        self, term: App, operands: list[tuple[str, SymType]], attrs: dict[str, Any], name: str
    ) -> tuple[str, SymType]:
        """Add an application to the query by a name; return the name and its type."""
        numbers = [self.numbers[o[0]] for o in operands if o[0] in self.numbers]
        if Trait.NUMBER in spec_of(term.op).traits or (numbers and len(numbers) == len(operands)):
            self.numbers[name] = interpret.combined(term, attrs, numbers)
            return name, self.type(name)
        others = [o for o in operands if o[0] not in self.numbers]
        if numbers:
            operands = [(self.uniform(*o), o[1]) if o[0] in self.numbers else o for o in operands]
        columns = [c for attr in spec_of(term.op).attrs for c in self.columns(attr, attrs[attr.name])]
        text = " ".join(columns + [o[0] for o in operands])
        self.query.append(f"(= {name} ({constructor(term).name} {text}))")
        if numbers:
            return name, self.beside_numbers(term, numbers, others, name)
        return name, self.infer(term, attrs, [o[1] for o in operands], name)

    def uniform(self, name: str, kind: SymType) -> str:
        """Add to the query a tensor whose elements are all one number; return its class variable."""
        found = self.numbers[name].value
        self.count += 1
        text = literal(interpret.nearest_decimal(found)) if isinstance(found, float) else str(found)
        self.query.append(f"(= {text} (uniform_ u{self.count}_))")
        return f"u{self.count}_"

    def beside_numbers(
        self, term: App, numbers: list[Number], others: list[tuple[str, SymType]], name: str
    ) -> SymType:
        """Return the type of an application to one tensor and numbers, which must be the tensor's."""
        spec = spec_of(term.op)
        if spec.max_inputs != 2 or spec.traits & (Trait.BROADCASTS | Trait.PRODUCT) != Trait.BROADCASTS:
            raise NotBinding(f"an operand of {term.op} must not be a number, as it is not repeated")
        ((operand, kind),) = others
        self.infer(term, {}, [kind, kind], name)  # the requirements of the type rule are known
        self.typing.guards.append(symbolic.equal_types(f"s_{name}", f"s_{operand}"))
        if not all(n.written for n in numbers):
            # In double precision, the number nearest to a computed one is another than in single precision.
            self.typing.guards.append(f"(!= {self.typing.get(kind, 0)} {DTYPE_CODES['float64']})")
        return kind

    def inserted(
        self, term: App, operands: list[tuple[str, SymType]], attrs: dict[str, Any], name: str
    ) -> tuple[str, SymType]:
        """Add an application to the head by a name; return the name and its type."""
        kind = self.infer(term, attrs, [o[1] for o in operands], name)
        columns: list[str] = []
        for attr in spec_of(term.op).attrs:
            # In the e-graph a shape is the type of the result.
            shape = attr.kind == "shape"
            columns += [self.typing.text(kind)] if shape else self.columns(attr, attrs[attr.name])
        text = " ".join(columns + [o[0] for o in operands])
        made = constructor(term)
        self.head.append(f"(let {name} ({made.name} {text}))")
        self.head.append(f"(set (ty_ {name}) {self.typing.text(kind)})")
        self.head.append(f"(set ({made.born} {text}) {UNSTAMPED + self.number})")
        if term.op == NUMBER:
            self.head.append(f"(set (uniform_ {name}) {columns[0]})")
        return name, kind

    def infer(self, term: App, attrs: dict[str, Any], operands: list[SymType], name: str) -> SymType:
        """Return the type of an application."""
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

    # -- attributes ---------------------------------------------------------------------------
    def fresh(self, attr: Attr, variable: str | RowAttr, place: int) -> Sym | tuple[Sym, ...]:
        """Return variables for all columns of an attribute."""
        name = variable if isinstance(variable, str) else f"{variable.row}_{variable.name}"
        if isinstance(variable, str):
            self.kinds[name] = attr
        if attr.kind == "ints":
            return tuple(opaque(f"a_{name}_{'abcdefgh'[i]}_") for i in range(attr.length))
        return opaque(f"a_{name}_", positive=attr.kind == "extent")

    def literal(self, value: Any, attr: Attr | None) -> Any:
        """Return a fixed value in the form that type rules expect."""
        if attr is None:
            return DTYPE_CODES.get(value, value)
        if value is None:
            raise RuleCompileError(f"rule {self.rule.name}: {attr.name} has no default and must be given")
        if attr.names:
            return attr.names.index(value)
        if attr.kind == "float":
            return opaque(literal(float(value)))
        return opaque(literal(value)) if attr.kind == "str" else interpret.spread(value, attr)

    def columns(self, attr: Attr, value: Any) -> list[str]:
        """Return the columns of an attribute in a query or a head."""
        if attr.kind == "ints":
            return [str(v) for v in value]
        if attr.kind == "dtype" and isinstance(value, str):
            return [str(DTYPE_CODES[value])]
        if attr.kind in ("perm", "axes", "shape") and isinstance(value, tuple):
            if attr.kind == "shape":
                return [self.shape(value)]
            text = vector(self.encoding.vector_of(attr, value))
            if not self.typing.assuming:
                return [text]
            if attr.kind == "axes" and not all(isinstance(v, int) for v in value):
                return [self.entries(value)]
            name = f"l{len(self.query)}_"
            self.query.append(f"(= {name} {text})")
            return [name]
        return [str(value)]

    def shape(self, extents: Sequence[Any]) -> str:
        """Return the column of a shape on a left-hand side, whose extents are read from it."""
        name, rank = f"l{len(self.query)}_", len(extents)
        if rank > self.encoding.rank:
            raise NeverApplies("a rank beyond the largest of the graph")
        slots = ((extent, self.encoding.slot(i - rank)) for i, extent in enumerate(extents))
        self.query += [f"(= {value} (vec-get {name} {slot}))" for value, slot in ((rank, 1), *slots)]
        return name

    def entries(self, values: Sequence[Any]) -> str:
        """Return the column of a vector on a left-hand side, whose entries are read from it."""
        name = f"l{len(self.query)}_"
        self.query.append(f"(= {len(values)} (vec-length {name}))")
        self.query += [f"(= {value} (vec-get {name} {i}))" for i, value in enumerate(values)]
        return name

    # -- expressions --------------------------------------------------------------------------
    def dim(self, var: str, axis: Size) -> Size:
        """Return the extent of a tensor variable's axis."""
        return self.typing.dim(self.type(var), axis)

    def rank(self, var: str) -> Size:
        """Return the rank of a tensor variable."""
        return self.typing.rank(self.type(var))

    def dtype(self, var: str) -> Size:
        """Return the code of a tensor variable's element type."""
        return self.typing.get(self.type(var), 0)

    def arith(self, sign: str, left: Size, right: Size) -> Size:
        """Return the expression of an operation on two numbers."""
        return symbolic.floored(sign, self.typing.resolve(left), self.typing.resolve(right))

    def compose(self, left: Any, right: Any) -> Any:
        """Return the permutation that first applies ``left`` and then ``right``."""
        if isinstance(left, tuple) and isinstance(right, tuple):
            return tuple(left[i] for i in right)
        size = self.encoding.rank + 2
        texts = [
            vector(self.encoding.perm_vector(v)) if isinstance(v, tuple) else str(v) for v in (left, right)
        ]
        moved = [f"(vec-get {texts[0]} (vec-get {texts[1]} {i}))" for i in range(2, size)]
        return opaque(vector(["0", f"(vec-get {texts[0]} 1)", *moved]))

    def inverse(self, perm: Any) -> Any:
        """Return the permutation that undoes another."""
        if isinstance(perm, tuple):
            return interpret.inverted(perm)
        # Where the permutation takes slot i from, the inverse takes from i.
        text = str(perm)
        for i in range(2, self.encoding.rank + 2):
            text = f"(vec-set {text} (vec-get {perm} {i}) {i})"
        return opaque(text)

    def axis(self, perm: Any, axis: Any) -> Size:
        """Return the operand's axis that a transposition brings to ``axis``, both counted from the last."""
        # A permutation's vector holds the source slot of every slot; those of missing axes stay in place.
        end = self.encoding.rank + 2
        text = vector(self.encoding.perm_vector(perm)) if isinstance(perm, tuple) else str(perm)
        return opaque(f"(vec-get {text} {end + axis})") - end

    # -- facts --------------------------------------------------------------------------------
    def conditions(self) -> None:
        """Add the rule's own conditions to the guards."""
        for condition in self.rule.conditions:
            codes = condition.of_dtypes or any(
                isinstance(side, AttrVar) and self.kinds[side.name].kind == "dtype"
                for side in (condition.left, condition.right)
            )
            relate = symbolic.compare_dtypes if codes else symbolic.compare
            for a, b in interpret.compared(condition, self):
                fact = relate(condition.relation, self.typing.resolve(a), self.typing.resolve(b))
                self.typing.require(fact, f"condition {condition}")

    def type_facts(self, texts: Iterable[str]) -> list[str]:
        """Return the facts that bind every type variable that occurs in the texts."""
        names = sorted(set(re.findall(r"\bs_(\w+_)(?![\w])", " ".join(texts))))
        return [f"(= s_{n} (ty_ {n}))" for n in names]


def _variables(rule: Rule) -> tuple[list[str], list[str]]:
    """Return the names of the shared and of the starred tensor variables."""
    found = dict.fromkeys(term for term in subterms(*rule.sources) if isinstance(term, Var))
    return [v.name for v in found if not v.starred], [v.name for v in found if v.starred]


def compile_rule(rule: Rule, number: int, encoding: Encoding, running: bool = False) -> CompiledRule | None:
    """Compile a rule; return None if its guard can never hold under this encoding.

    Args:
        rule: The rule.
        number: Its number in birth records.
        encoding: The encoding of the run.
        running: Whether the rule rewrites only terms that depend on an input, unless it makes a term smaller:
            weight-only terms cost nothing, so that a second form of one only adds matching work.
    """
    return _compiled(rule, number, encoding, running, replacements())


@lru_cache(maxsize=4096)
def _compiled(
    rule: Rule, number: int, encoding: Encoding, running: bool, replaced: int
) -> CompiledRule | None:
    # An operator's definition may change between two calls: ``replaced`` counts the changes.
    c = _Compiler(rule, number, encoding, SymbolicTyping(encoding), running=running and not _shrinks(rule))
    try:
        return _compile_each(c) if rule.each else _compile(c)
    except NeverApplies:
        return None
    except NotBinding as error:
        raise RuleCompileError(f"rule {rule.name}: {error}") from None


def _uses(rule: Rule) -> list[str]:
    """Return the facts that restrict a rule to matches for which it is useful."""
    facts = [f"(constant_ {named(name)})" for name in rule.constants]
    facts += [f"(runs_ {named(name)})" for name in rule.running]
    return facts + [f"(!= {named(a)} {named(b)})" for a, b in rule.distinct]


def _shrinks(rule: Rule) -> bool:
    """Return whether every target has fewer operators than its source."""
    return not rule.each and all(
        len([*applications(t)]) < len([*applications(s)])
        for s, t in zip(rule.sources, rule.targets, strict=True)
    )


def _compile(c: _Compiler) -> CompiledRule:
    rule = c.rule
    roots = [f"e{'abcdefgh'[i]}_" for i in range(len(rule.sources))]
    kinds = [c.match(source, root) for source, root in zip(rule.sources, roots, strict=True)]
    c.typing.assuming = False
    c.conditions()
    # A target equal to its source gives context only: it is matched and stays.
    for i, (source, target) in enumerate(zip(rule.sources, rule.targets, strict=True)):
        if source == target:
            continue
        name, kind = c.build(target)
        left, right = c.typing.text(kinds[i]), c.typing.text(kind)
        if left != right:
            c.typing.require(symbolic.equal_types(f"s_{roots[i]}", right), "both sides have one type")
        # The root's own type vector replaces the equal expression, so that no vector is built anew.
        if right.startswith("("):
            c.head = [line.replace(f") {right})", f") s_{roots[i]})") for line in c.head]
        c.head.append(f"(union {roots[i]} {name})")
        if rule.final:
            (whole,) = (fact for fact in c.query if fact.startswith(f"(= {roots[i]} ("))
            c.head.append(f"(subsume {whole.removeprefix(f'(= {roots[i]} ')[:-1]})")
    facts = list(c.query)
    if c.running:
        facts += [f"(runs_ {root})" for root in roots]
    facts += _uses(rule)
    if sinks(rule):
        facts.append(f"(= 0 (whole_ {c.whole}))")
    if len(roots) > 1:
        facts += [f"(!= {a} {b})" for i, a in enumerate(roots) for b in roots[i + 1 :]]
        if symmetric(rule):
            facts.append(f"(= {roots[0]} (ordering-min {roots[0]} {roots[1]}))")
    facts += c.type_facts([*c.typing.guards, *c.head]) + c.typing.guards
    query, head = share(facts, c.head)
    ruleset = f"rs_{identifier(rule.name)}"
    counting = None
    if len(roots) > 1:
        # One row per match: the roots and every variable of the patterns.
        row, relation = [*roots, *map(named, _variables(rule)[0])], f"count_{ruleset}"
        rows = (f"({relation} {' '.join(row)})",), relation, ("T",) * len(row)
        counting = EgglogRule(f"count_rs_{ruleset}", f"count {rule.name}", query, *rows)
    targets = [t for s, t in zip(rule.sources, rule.targets, strict=True) if s != t]
    program = EgglogRule(ruleset, rule.name, query, head)
    growth = sum(line.startswith("(let n") for line in head)
    return CompiledRule(rule, c.number, program, growth, needed(rule.sources), made(targets), counting)


def _compile_each(c: _Compiler) -> CompiledRule:
    rule = c.rule
    c.match(rule.sources[0], "ea_")
    c.typing.assuming = False
    c.conditions()
    shared, starred = _variables(rule)
    attrs: list[tuple[tuple[str, ...], Attr]] = [((name,), c.kinds[name]) for name in c.attrs]
    values = list(c.attrs.values())
    ops = {t.row: t.op for t in applications(rule.sources[0]) if t.row}
    for row, given in c.rows.items():
        for attr in spec_of(ops[row]).attrs:
            if attr.name in given:
                attrs.append(((row, attr.name), attr))
                values.append(given[attr.name])
    tensors = ["ea_", *map(named, [*shared, *starred])]
    flat = [str(i) for v in values for i in (v if isinstance(v, tuple) else (v,))]
    sorts = ["T"] * len(tensors) + [sort for _, attr in attrs for sort in column_sorts(attr)]
    running = ["(runs_ ea_)"] * c.running + _uses(rule)
    facts, _ = share(c.query + running + c.type_facts(c.typing.guards) + c.typing.guards, ())
    ruleset = f"rs_{identifier(rule.name)}"
    relation = f"members_{ruleset}"
    collected = (f"({relation} {' '.join(tensors + flat)})",)
    program = EgglogRule(ruleset, rule.name, facts, collected, relation, tuple(sorts))
    member = Member(relation, tuple(shared), tuple(starred), tuple(attrs))
    growth = len([*applications(rule.targets[0])]) + 1
    return CompiledRule(rule, c.number, program, growth, needed(rule.sources), (), None, member)
