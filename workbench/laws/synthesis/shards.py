"""Shards of the terms of one size: parts that are evaluated apart, here, in other processes or on a cluster.

A shard is an operator applied to a range of operands. Shards are put together in the order of enumeration, so
the terms, their classes and the laws are the same however they are distributed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np

from workbench.laws import pool
from workbench.laws.synthesis.arithmetic import Evaluator, hashed, mixed
from workbench.laws.synthesis.grammar import Form
from workbench.ops import TensorType, Trait, with_trait
from workbench.ops.exact import Arithmetic
from workbench.ops.serialization import install

#: Shards that wait for each worker, so that none is idle while results are put together.
AHEAD: Final = 3
#: Rows that are not divided further among workers.
FEW: Final = 2_000
_FACTOR: Final = np.uint64(0x100000001B3)


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
    values = []
    for attrs, inputs, operands in zip(shard.attrs, shard.inputs, shard.operands, strict=True):
        values.append(_evaluator(shard.form, attrs, inputs, shard.arithmetic)(operands))
    return fingerprints(values, shard.arithmetic, shard.kind, keep=shard.keep)


def fingerprints(values: list[np.ndarray], arithmetic: Arithmetic, kind: int, *, keep: bool) -> Evaluated:
    """Return the hashes of rows of values under every assignment of sizes.

    Args:
        values: The values, rows first, under every assignment.
        arithmetic: The arithmetic of the values.
        kind: The number of their types.
        keep: Whether the values are kept.
    """
    total = np.full(len(values[0]), np.uint64(kind + 1))
    usable = np.ones(len(values[0]), dtype=bool)
    for world, value in enumerate(values):
        part, good = hashed(value, arithmetic, world)
        with np.errstate(over="ignore"):
            total = mixed(total * _FACTOR + part)
        usable &= good
    return Evaluated(total, usable, values if keep else [])


def _evaluator(
    form: Form, attrs: tuple[Any, ...], inputs: tuple[TensorType, ...], arithmetic: Arithmetic
) -> Evaluator:
    # A user's operator may be defined anew under the same name.
    make = _made.__wrapped__ if form.op in with_trait(Trait.OWN) else _made
    return make(form, attrs, inputs, arithmetic)


@lru_cache(maxsize=4096)
def _made(
    form: Form, attrs: tuple[Any, ...], inputs: tuple[TensorType, ...], arithmetic: Arithmetic
) -> Evaluator:
    return Evaluator(form, attrs, inputs, arithmetic)


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
        ...

    def __call__(self, function: Callable[[Shard], Evaluated], shards: Sequence[Shard]) -> list[Evaluated]:
        """Return the results in the order of the shards."""
        ...


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
    """Yield a mapper with a number of processes, which end with the context; one job needs none.

    Raises:
        ValueError: if the number is not positive.

    """
    if jobs < 1:
        raise ValueError(f"the number of processes must be positive, got {jobs} (try 2)")
    if jobs == 1:
        yield Here()
        return
    with pool.processes(jobs) as executor:
        yield Here(executor, jobs)
