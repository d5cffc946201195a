"""Evaluation of the terms of one size, in shards: here, in other processes or on a cluster.

A shard is an operator applied to a range of operands. Shards are put together in the order of enumeration, so
the terms, their classes and the laws are the same however they are distributed.

Values are exact if the operators allow it: residues modulo a prime for polynomials, whole numbers below 2^53
if values are compared. Operators that divide or take roots are computed in float64, whose results are rounded
to eight digits before they are hashed. A hash only proposes an equation; a verification decides it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np

from workbench.laws import pool
from workbench.laws.synthesis.grammar import Form
from workbench.laws.verification.refuting.exact_arithmetic import PRIME, WHOLE
from workbench.ops import TensorType, Trait, TypeMismatch, spec_of, with_trait
from workbench.ops.exact import Arithmetic
from workbench.ops.serialization import install
from workbench.ops.types import INTEGER_DTYPES

#: Shards that wait for each worker, so that none is idle while results are put together.
AHEAD: Final = 3
#: Rows that are not divided further among workers.
FEW: Final = 2_000
#: Rows whose lifted results are compared with results computed one by one.
_COMPARED: Final = 3
#: Whole numbers are drawn from minus this to this.
_REACH: Final = 5
#: Binary digits that a float64 result keeps before it is hashed.
_DIGITS: Final = 26
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_FACTOR: Final = np.uint64(0x100000001B3)


# -- values -------------------------------------------------------------------------------------------
def arithmetic_of(forms: Iterable[Form], sizes: dict[str, int]) -> Arithmetic:
    """Return the arithmetic in which all forms are computed: polynomial, ordered, or float64 for the rest."""
    needed = Arithmetic.POLYNOMIAL
    for form in forms:
        spec = spec_of(form.op)
        attrs = spec.unpack(form.values(sizes))
        own = Arithmetic.FLOATS if spec.exact is None else spec.exact.arithmetic(attrs)
        if own is Arithmetic.ORDERED and spec.exact is not None and spec.exact.bound is None:
            own = Arithmetic.FLOATS
        needed = max(needed, own)
    return needed if needed <= Arithmetic.ORDERED else Arithmetic.FLOATS


def drawn(kind: TensorType, arithmetic: Arithmetic, rng: np.random.Generator) -> np.ndarray:
    """Return random values of a variable."""
    if arithmetic is Arithmetic.POLYNOMIAL:
        return rng.integers(0, PRIME, kind.shape, dtype=np.int64)
    if arithmetic is Arithmetic.ORDERED or kind.dtype in INTEGER_DTYPES:
        return rng.integers(-_REACH, _REACH + 1, kind.shape).astype(np.float64)
    return rng.uniform(-2.0, 2.0, kind.shape)


class Evaluator:
    """An evaluator of one form on operands of given types, for many rows of operands at once.

    A row is one application. If the operator computes many rows in one call, with a further leading axis, it
    does; a few rows are compared with results computed one by one, and if they differ all rows are. The ``form`` has
    attributes with ``values`` in declared order, and operands of the types ``inputs`` in an ``arithmetic``.
    """

    def __init__(
        self, form: Form, values: tuple[Any, ...], inputs: Sequence[TensorType], arithmetic: Arithmetic
    ) -> None:
        self.spec = spec_of(form.op)
        self.attrs = self.spec.unpack(values)
        self.arithmetic = arithmetic
        self.out = self.spec.result_type(inputs, values)
        self.ranks = [t.rank for t in inputs]
        self._lifts = Trait.OWN not in self.spec.traits

    def __call__(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Return the results of all rows; operands and results have a leading axis of rows."""
        rows = len(operands[0])
        with np.errstate(all="ignore"):
            if self._lifts and rows > 1:
                found = self._lifted(operands, rows)
                if found is not None:
                    return found
                self._lifts = False
            return np.stack([self._one([x[i] for x in operands]) for i in range(rows)])

    def _one(self, operands: Sequence[np.ndarray]) -> np.ndarray:
        if Trait.OWN in self.spec.traits and self.arithmetic is Arithmetic.POLYNOMIAL:
            operands = [np.asarray(x, dtype=object) for x in operands]  # of any degree
        return self._settled(operands, self.attrs)

    def _settled(self, operands: Sequence[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
        assert self.spec.evaluate is not None
        result = self.spec.evaluate(operands, attrs)
        if self.arithmetic is Arithmetic.POLYNOMIAL:
            return np.asarray(np.asarray(result) % PRIME, dtype=np.int64)
        return np.asarray(result, dtype=np.float64)

    def _lifted(self, operands: Sequence[np.ndarray], rows: int) -> np.ndarray | None:
        """Return the results of all rows in one call, or None if the operator does not compute them so."""
        most = max(self.ranks)
        aligned = [
            x.reshape(rows, *(1,) * (most - rank), *x.shape[1:])
            for x, rank in zip(operands, self.ranks, strict=True)
        ]
        attrs = dict(self.attrs)
        for attr in self.spec.attrs:
            if attr.kind == "perm":
                attrs[attr.name] = (0, *(p + 1 for p in self.attrs[attr.name]))
            elif attr.kind == "shape":
                attrs[attr.name] = (rows, *self.attrs[attr.name])
        try:
            found = self._settled(aligned, attrs)
            if found.shape != (rows, *self.out.shape):
                return None
            for i in {0, rows // 2, rows - 1} if rows > _COMPARED else range(rows):
                one = self._one([x[i] for x in operands])
                if not np.allclose(one, found[i], rtol=1e-12, atol=0.0, equal_nan=True):
                    return None
        except (ValueError, IndexError, TypeError, TypeMismatch):
            return None
        return found


_evaluator = lru_cache(maxsize=4096)(Evaluator)


def hashed(rows: np.ndarray, arithmetic: Arithmetic, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a 64-bit hash of each row's elements, and which rows have a usable value."""
    flat = rows.reshape(len(rows), -1)
    usable = np.ones(len(rows), dtype=bool)
    if arithmetic is Arithmetic.ORDERED:
        usable = np.abs(flat).max(axis=1, initial=0.0) < WHOLE
        numbers = np.where(usable[:, None], flat, 0.0).astype(np.int64)
    elif arithmetic is Arithmetic.FLOATS:
        usable = np.isfinite(flat).all(axis=1)
        kept = np.where(usable[:, None], flat, 0.0)
        scale = np.frexp(np.abs(kept).max(axis=1, initial=0.0))[1]
        numbers = np.rint(np.ldexp(kept, (_DIGITS - scale)[:, None])).astype(np.int64)
        numbers = np.concatenate([numbers, scale[:, None].astype(np.int64)], axis=1)
    else:
        numbers = flat
    factors = np.random.default_rng(seed).integers(0, 1 << 63, numbers.shape[1], dtype=np.uint64)
    factors = factors * np.uint64(2) + np.uint64(1)
    with np.errstate(over="ignore"):
        total = (numbers.view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
    return mixed(total), usable


def mixed(value: np.ndarray) -> np.ndarray:
    """Return hashes whose bits depend on all bits of the given ones."""
    with np.errstate(over="ignore"):
        value = value ^ (value >> np.uint64(31))
        value = value * _MIX
        result: np.ndarray = value ^ (value >> np.uint64(29))
        return result


# -- shards -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Shard:
    """An operator with its attributes under every assignment of sizes, and rows of operands.

    ``inputs`` are the types of the operands and ``operands`` their values, under every assignment. ``kind``
    is the number of the result's types. ``keep`` is whether the results are returned next to their hashes.
    ``operators`` are the packed operators that are not built in.
    """

    form: Form
    attrs: tuple[tuple[Any, ...], ...]
    inputs: tuple[tuple[TensorType, ...], ...]
    operands: tuple[tuple[np.ndarray, ...], ...]
    arithmetic: Arithmetic
    kind: int
    keep: bool
    operators: bytes = b""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The results of a shard: hashes of all rows, which rows are usable, and the values if wanted."""

    hashes: np.ndarray
    usable: np.ndarray
    values: list[np.ndarray]


def evaluated(shard: Shard) -> Evaluated:
    """Return the results of a shard."""
    install(shard.operators)
    # A user's operator may be defined anew under the same name.
    make = Evaluator if shard.form.op in with_trait(Trait.OWN) else _evaluator
    worlds = zip(shard.attrs, shard.inputs, shard.operands, strict=True)
    values = [make(shard.form, attrs, inputs, shard.arithmetic)(x) for attrs, inputs, x in worlds]
    found = fingerprints(values, shard.arithmetic, shard.kind)
    return found if shard.keep else replace(found, values=[])


def fingerprints(values: list[np.ndarray], arithmetic: Arithmetic, kind: int) -> Evaluated:
    """Return the hashes of rows of values, rows first, of types of a number, under every assignment of sizes."""
    total = np.full(len(values[0]), np.uint64(kind + 1))
    usable = np.ones(len(values[0]), dtype=bool)
    for world, value in enumerate(values):
        part, good = hashed(value, arithmetic, world)
        with np.errstate(over="ignore"):
            total = mixed(total * _FACTOR + part)
        usable &= good
    return Evaluated(total, usable, values)


def cut(part: tuple[int, np.ndarray, Shard], room: int) -> tuple[int, np.ndarray, Shard]:
    """Return the first rows of a shard, at most a given number of them."""
    number, args, shard = part
    if len(args) <= room:
        return part
    operands = tuple(tuple(x[:room] for x in world) for world in shard.operands)
    return number, args[:room], replace(shard, operands=operands)


def rows_of_a_shard(rows: int, workers: int) -> int:
    """Return the rows of a shard if some rows are shared among workers; few rows are not worth sending."""
    return rows if workers == 1 else max(FEW, -(-rows // (AHEAD * workers)))


class Mapper(Protocol):
    """A way to evaluate shards: each result in the order of the shards, several at a time."""

    @property
    def workers(self) -> int:
        """Return how many shards are evaluated at a time."""

    def __call__(self, function: Callable[[Shard], Evaluated], shards: Sequence[Shard]) -> list[Evaluated]:
        """Return the results in the order of the shards."""


@dataclass(frozen=True, slots=True)
class Here:
    """The mapper of this machine: it evaluates shards in the processes of a pool, by default in this one."""

    pool: Executor | None = None
    workers: int = 1

    def __call__(self, function: Callable[[Shard], Evaluated], shards: Sequence[Shard]) -> list[Evaluated]:
        """Return the results in the order of the shards."""
        return list(map(function, shards) if self.pool is None else self.pool.map(function, shards))


@contextlib.contextmanager
def processes(jobs: int) -> Iterator[Mapper]:
    """Yield a mapper with a number of processes, which end with the context; raise ValueError if it is below 1."""
    if jobs < 1:
        raise ValueError(f"the number of processes must be positive, got {jobs} (try 2)")
    if jobs == 1:
        yield Here()
        return
    with pool.processes(jobs) as executor:
        yield Here(executor, jobs)
