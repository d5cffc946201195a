"""The backend of ``torch.compile``: rewrite the forward graph by laws, check the first step, go on to Inductor.

A law that holds for all tensors keeps the gradients, because equal functions have equal gradients. Parameters are
inputs here, so that only such laws apply. What cannot be gained, and what fails, is handed on as it came.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import fx

from workbench.costs import CostModel
from workbench.costs.analytic import AnalyticCost, Work, work
from workbench.costs.model import OpInstance
from workbench.devices.timing import paired_speedup, rounds
from workbench.egraph.at_sizes import unproved
from workbench.graph import Builder, Graph
from workbench.ops import TensorType, Trait, spec_of
from workbench.rules import RuleSet
from workbench.run.trace import StopReason
from workbench.support.disk_cache import remembered
from workbench.torch.checks import COMPILED, REWRITTEN, Callee, Outcome, Verdict, compared, outcome, timers
from workbench.torch.freezing import Folded, stored_places
from workbench.torch.reader import NotRead, TorchGraph, read
from workbench.torch.reader import is_random as is_random_node
from workbench.torch.reports import Part, note
from workbench.torch.sizes import Sizes, arguments_at
from workbench.torch.writer import write

_log: Final = logging.getLogger("workbench.torch")

#: What follows the rewriting.
THENS: Final = ("inductor", "eager")

#: A rewritten graph must be cheaper than the original by this part of its price.
GAIN: Final = 0.005

#: The same in training: its prices guess what the gradients cost.
TRAINING_GAIN: Final = 0.05

#: The limit on e-nodes of a small graph.
LEAST_E_NODES: Final = 1000

#: The seconds in which a rewritten graph and the original are timed, unless fewer rounds tell which is faster; and the
#: least number of rounds that can tell.
TIMED_SECONDS, LEAST_ROUNDS = 2.0, 7

#: If something is gained within the limit on e-nodes, the search has this many times as many.
DEEPER: Final = 4


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the backend, given as ``torch.compile(..., options={...})``.

    Attributes:
        then: What compiles the rewritten graph: ``inductor``, or ``eager`` for nothing.
        strict: Whether an error of the rewriting, or a failed check, is raised instead of handed on.
        check: Whether the first call is compared with the original.
        time: Whether that comparison also times both, compiled in the same way, so that the faster one runs.
        freeze: Whether parameters and buffers are constants if no gradient is asked for.
        rules: The rules, as :func:`workbench.optimize` takes them.
        device: The device whose roofline prices the operators.
        seconds: The limit on the search for a better graph.
        growth: The limit on its e-nodes, as a multiple of the graph's nodes; if something is gained within it, it is
            raised once.
        seed: The seed of the check.
    """

    then: str = "inductor"
    strict: bool = False
    check: bool = True
    time: bool = True
    freeze: bool = True
    rules: Any = "default"
    device: str = "cpu"
    seconds: float = 60.0
    growth: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.then not in THENS:
            raise ValueError(f"then must be one of {', '.join(THENS)}, got {self.then!r}")


class CheckFailed(ArithmeticError):
    """Raised with ``strict`` when the first step of a compiled graph differs from the original's."""


def backend(
    module: fx.GraphModule,
    arguments: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile Dynamo's graph: the function behind ``torch.compile(model, backend="workbench")``.

    Args:
        module: Dynamo's graph.
        arguments: Its example arguments.
        options: See :class:`Options`.
        mode: Accepted, and not used.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If an option is out of its bounds.
    """
    from workbench.saturation.process import warm

    chosen = Options(**(options or {}))
    warm()  # the engine's process starts while torch traces
    began = time.perf_counter()
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    training = torch.is_grad_enabled() and any(a.requires_grad for a in tensors)
    part = Part.of(module, arguments, training)
    rewritten, folded, frozen = None, None, frozenset[int]()
    try:
        if not training and chosen.freeze:
            frozen = stored_places(module, arguments)
        source = read(traced(module, arguments), training=training, frozen=frozen)
        part = replace(part, operators=len(source.values), unknown=source.unknown)
        found = improved(source, chosen, training)
        part = replace(part, before=found.before, after=found.after, laws=found.laws)
        cheaper = found.graph(source)
        if cheaper is None:
            when = " before the time was up" if found.cut else ""
            part = replace(part, handed_on=f"nothing cheaper was found{when}")
        else:
            rewritten = write(source, cheaper)
            if frozen:
                folded = Folded(rewritten, frozen, arguments, channels_last=chosen.then == "inductor")
                rewritten = folded.module
    except NotRead as error:
        part = replace(part, handed_on=str(error))
        if chosen.strict and part.laws:
            raise
    except Exception as error:
        if chosen.strict:
            raise
        part = replace(part, handed_on=f"{type(error).__name__}: {error}")
        _log.warning("the graph is handed on as it is: %s", error)
    part = replace(part, seconds=time.perf_counter() - began)
    number = note(part)
    if rewritten is None:
        return _then(module, arguments, chosen)
    try:
        compiled = _then(rewritten, arguments, chosen)
    except Exception as error:
        if chosen.strict:
            raise
        note(number=number, handed_on=f"the rewritten graph does not compile: {error}")
        _log.warning("the graph is handed on as it is: %s", error)
        return _then(module, arguments, chosen)
    follow = folded.following if folded is not None else _as_it_is
    if chosen.check:
        return _Checked(module, rewritten, compiled, chosen, number, source.sizes, follow)
    return follow(compiled)


def _as_it_is(run: Callee) -> Callee:
    return run


def _then(module: fx.GraphModule, arguments: Sequence[Any], options: Options) -> Callee:
    """Compile a torch graph by what follows."""
    if options.then == "eager":
        return module.forward
    from torch._inductor.compile_fx import compile_fx

    compiled: Callee = compile_fx(module, list(arguments))
    return compiled


def traced(module: fx.GraphModule, arguments: Sequence[Any]) -> fx.GraphModule:
    """Return Dynamo's graph as aten operators before dispatch, with the metadata that Inductor reads.

    Raise :class:`NotRead` if it has operators of higher order, whose bodies would lose their backward.
    """
    from torch._guards import TracingContext, tracing
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    for node in module.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise NotRead(f"the operator of higher order {node.target}")
    context = TracingContext.try_get()
    shapes = None if context is None or context.fake_mode is None else context.fake_mode.shape_env
    # Not the mode of the caller: tracing may change its tensors.
    mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)

    def fake(given: Any) -> Any:
        if not isinstance(given, torch.Tensor):
            return given
        known = None if context is None else context.tensor_to_context.get(given)
        if known is None:
            return mode.from_tensor(given, static_shapes=True)
        return mode.from_tensor(given, symbolic_context=known, source=known.tensor_source)

    with tracing(TracingContext(mode)), mode:
        made: fx.GraphModule = make_fx(module, pre_dispatch=True)(*map(fake, arguments))
    places = [[n for n in m.graph.nodes if n.op == "placeholder"] for m in (module, made)]
    for ours, theirs in zip(*places, strict=True):
        theirs.meta = {**ours.meta, **theirs.meta}
        if hasattr(ours, "_dynamo_source"):
            theirs._dynamo_source = ours._dynamo_source
    made.meta.update(module.meta)
    if hasattr(module, "_param_name_to_source"):
        made._param_name_to_source = module._param_name_to_source
    return made


# -- prices of operators in training: the work of the forward pass and of the gradients of all operands -------
#: Operators whose gradient for each operand is as much work as themselves.
_CONTRACTIONS: Final = frozenset({"matmul", "conv2d", "conv_transpose", "attention"})


class TrainingCost(AnalyticCost):
    """A roofline of a training step: every operator once forward, and once backward for each operand.

    The gradient of a product is one product for each operand. The gradient of a slice fills a tensor of the
    whole operand; that of every other operator moves as much as the operator.
    """

    @property
    def source(self) -> str:
        """Return a description of the source of the figures."""
        return f"{super().source}, forward and backward"

    def price(self, instances: Sequence[OpInstance]) -> np.ndarray:
        """Return the cost of each instance in microseconds."""
        ahead = super().price(instances)
        back = [self._backward(i, cost) for i, cost in zip(instances, ahead.tolist(), strict=True)]
        return ahead + np.array(back, dtype=float)

    def _backward(self, instance: OpInstance, forward: float) -> float:
        spec = spec_of(instance.op)
        if Trait.ALIAS in spec.traits or not spec.max_inputs or not forward:
            return 0.0
        if instance.op == "slice":
            (whole,) = instance.inputs
            assert isinstance(whole, TensorType)
            return 1e6 * self.seconds(Work(0.0, whole.nbytes + work(instance).bytes))
        return forward * min(2, len(instance.inputs)) if instance.op in _CONTRACTIONS else forward


def cost_of(training: bool, device: str) -> CostModel:
    """Return the prices of a step: of the forward pass alone unless gradients are asked for."""
    return TrainingCost(device) if training else AnalyticCost(device)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: prices in microseconds, the laws, and the operators of a cheaper graph if there is one.

    An operator is its name, its operands and its attributes; ``outputs`` are the results by name. ``cut`` tells that
    the time was up.
    """

    before: float
    after: float
    laws: tuple[str, ...] = ()
    operators: tuple[tuple[str, tuple[int, ...], tuple[Any, ...]], ...] = ()
    outputs: tuple[tuple[str, int], ...] = ()
    cut: bool = False

    def graph(self, source: TorchGraph) -> Graph | None:
        """Return the cheaper graph of the one that was searched, or None.

        Raise :class:`NotRead` if it is not proved to fit at every size.
        """
        if not self.operators:
            return None
        builder = Builder.of(source.graph)
        places: list[int] = []
        for op, operands, attrs in self.operators:
            places.append(builder.apply(op, [places[j] for j in operands], attrs))
        graph = builder.graph([(name, places[i]) for name, i in self.outputs])
        if why := unproved(graph, source.sizes.generic) if source.sizes.hints else "":
            raise NotRead(f"the result is not proved for every size: {why}")
        return graph


def improved(source: TorchGraph, options: Options, training: bool) -> Found:
    """Search for a cheaper graph that is equal for all parameters.

    The same search of another process is read from disk, unless its time was up.
    """
    from workbench.rules.ruleset import rules_of

    cost, gain = cost_of(training, options.device), TRAINING_GAIN if training else GAIN
    rules, graph, sizes = rules_of(options.rules), source.graph, source.sizes
    facts = sorted(f"{x.text} >= 0" for x in sizes.generic.facts.known)
    symbols = (repr(sizes.hints), repr(sizes.generic.primes), *facts) if sizes.hints else ()
    limits = repr((options.growth, DEEPER, gain))
    given = (graph.text(), repr(graph.outputs), cost.source, *map(repr, rules), limits, *symbols)
    try:
        return Found(*remembered("torch", given, lambda: _searched(source, rules, cost, options, gain)))
    except _Unfinished as unfinished:
        return replace(Found(*unfinished.args), cut=True)


class _Unfinished(Exception):
    """Raised with what a search found whose time was up: the next process may find more."""


def _searched(
    source: TorchGraph, rules: RuleSet, cost: CostModel, options: Options, gain: float
) -> tuple[Any, ...]:
    """Return the parts of what a search found."""
    from workbench.optimizer.pipeline import optimize

    graph, sizes = source.graph, source.sizes
    search = partial(
        optimize,
        sizes.model(graph) if sizes.hints else graph,
        sizes=sizes.hints or None,
        rules=rules,
        cost=cost,
        certify=False,
        time=False,
        seconds=options.seconds,
        seed=options.seed,
    )
    e_nodes = max(LEAST_E_NODES, options.growth * len(graph))
    result = search(e_nodes=e_nodes)
    before, after, stop = result.cost_before, result.cost_after, result.stop_reason
    if stop is StopReason.E_NODE_LIMIT and after <= before * (1 - gain):
        deeper = search(e_nodes=DEEPER * e_nodes)
        stop = deeper.stop_reason
        if deeper.cost_after < after:
            result, after = deeper, deeper.cost_after
    found: tuple[Any, ...] = before, before
    if after <= before * (1 - gain):
        term = result.graph if result.dynamic is None else result.dynamic.graph
        assert term is not None
        operators = tuple((n.op, n.inputs, n.attrs) for n in term.nodes)
        found = before, after, result.rules, operators, term.outputs
    if stop in (StopReason.TIME_LIMIT, StopReason.INTERRUPTED):
        raise _Unfinished(*found)
    return found


def _clear(taken: Sequence[Sequence[float]]) -> bool:
    """Return whether the rounds so far tell which of two is faster."""
    if len(taken[0]) < LEAST_ROUNDS:
        return False
    _, (low, high) = paired_speedup(*taken)
    return low > 1.0 or high < 1.0


class _Checked:
    """What was compiled, compared with the original at its first call.

    If it differs, the next way is taken and compared in turn: the original compiled, the rewritten graph without a
    compiler, the original. If it agrees, it is timed against the original. ``follow`` makes a way keep values that
    frozen parameters alone give.
    """

    def __init__(
        self,
        original: fx.GraphModule,
        rewritten: fx.GraphModule,
        compiled: Callee,
        options: Options,
        number: int,
        sizes: Sizes | None = None,
        follow: Callable[[Callee], Callee] = _as_it_is,
    ) -> None:
        self._original, self._rewritten, self._compiled = original, rewritten, compiled
        self._options, self._number, self._sizes, self._follow = options, number, sizes, follow
        self._chosen: Callee | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Run what was chosen; the first call chooses."""
        if self._chosen is None:
            self._chosen = self._choose(arguments)
            # The ways that were not chosen may hold the weights a second time.
            del self._original, self._rewritten, self._compiled, self._follow
        return self._chosen(*arguments)

    def _choose(self, arguments: Sequence[Any]) -> Callee:
        seed, original = self._options.seed, self._original
        reference = outcome(original, arguments, seed)
        is_random = any(map(is_random_node, self._rewritten.graph.nodes))
        exact = None
        if not is_random:  # random numbers in float64 are others
            with contextlib.suppress(Exception):  # a type is written into the graph
                exact = outcome(original, arguments, seed, precise=True)
        tried = partial(self._tried, arguments=arguments, reference=reference, exact=exact)
        verdict, _ = tried(lambda: self._rewritten.forward, limits=REWRITTEN)
        if verdict.passed and self._sizes is not None:
            verdict = self._at_other_sizes(self._sizes, arguments, verdict)
        failures = [] if verdict.passed else [f"rewritten: {verdict.reason}"]
        compiles = self._options.then != "eager"
        ways: tuple[tuple[str, Callable[[], Callee], bool], ...] = (
            ("rewritten, compiled", lambda: self._follow(self._compiled), verdict.passed),
            ("original, compiled", lambda: _then(original, arguments, self._options), compiles),
            ("rewritten, eager", lambda: self._follow(self._rewritten.forward), verdict.passed),
        )
        for name, make, _ in (way for way in ways if way[2]):
            verdict, way = tried(make, limits=COMPILED, random=is_random)
            if verdict.passed and way is not None:
                if name == "rewritten, compiled" and self._options.time:
                    checked, other = tried(ways[1][1], limits=COMPILED, random=is_random)
                    if checked.passed and other is not None and not self._is_faster(way, other, arguments):
                        name, verdict, way = "original, compiled", checked, other
                self._told(name, failures, verdict)
                return way
            failures.append(f"{name}: {verdict.reason}")
        self._told("original, eager", failures, Verdict(True))
        if self._options.strict:
            raise CheckFailed("; ".join(failures))
        return original.forward

    def _is_faster(self, way: Callee, original: Callee, arguments: Sequence[Any]) -> bool:
        """Return whether a rewritten way is faster than the original, compiled in the same way; run both in turn."""
        most, seed = TIMED_SECONDS, self._options.seed
        try:
            runs = timers((original, way), arguments)
            before, after = rounds(runs, seconds=most, slow=most, enough=_clear, seed=seed)
        except Exception as error:  # the rewritten way is right, even if no time is known
            _log.warning("the original was not timed: %s", error)
            return True
        speedup, _ = paired_speedup(before, after)
        note(number=self._number, timed=speedup)
        return speedup > 1.0

    def _at_other_sizes(self, sizes: Sizes, arguments: Sequence[Any], verdict: Verdict) -> Verdict:
        """Compare the rewritten graph with the original at other sizes that torch's guards accept."""
        for binding in sizes.others() if sizes.hints else ():
            others = arguments_at(self._rewritten, arguments, binding)
            try:
                reference = outcome(self._original, others, self._options.seed)
            except Exception:  # the original does not run there, or not in this memory
                continue
            verdict, _ = self._tried(lambda: self._rewritten.forward, others, reference, None, REWRITTEN)
            if not verdict.passed:
                at = ", ".join(f"{name} = {size}" for name, size in binding.items())
                return replace(verdict, reason=f"at {at}: {verdict.reason}")
        return verdict

    def _tried(
        self,
        make: Callable[[], Callee],
        arguments: Sequence[Any],
        reference: Outcome,
        exact: Outcome | None,
        limits: tuple[float, float],
        random: bool = False,
    ) -> tuple[Verdict, Callee | None]:
        """Make a way, run it on copies of the arguments and compare it; an error of it is a difference."""
        try:
            way = make()
            found = outcome(way, arguments, self._options.seed)
            return compared(found, reference, exact, limits=limits, is_random=random), way
        except Exception as error:
            return Verdict(False, reason=f"{type(error).__name__}: {error}"), None

    def _told(self, way: str, failures: list[str], verdict: Verdict) -> None:
        for failure in failures:
            _log.warning("the first step differs from the original's: %s", failure)
        note(number=self._number, way=way, failures=tuple(failures), distance=verdict.distance)
