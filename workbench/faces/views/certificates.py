"""A certificate in words, for faces and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.support.formatting import thousands

if TYPE_CHECKING:
    from workbench.certification.certificate import Certificate

#: Limit on the names of outputs in a sentence.
MOST_NAMES = 6


def certificate_lead(certificate: Certificate) -> str:
    """Return the outcome in one sentence."""
    if certificate.passed and not certificate.regions:
        return "The result computes what the original computes: nothing was rewritten."
    if certificate.passed:
        return "The optimised graph computes what the original computes, on every input that was tried."
    return f"The certificate failed: {certificate.reason}. The original stays."


def certificate_words(certificate: Certificate) -> list[tuple[str, str]]:
    """Return the compared values, the way of comparing and the outcome, as names and sentences."""
    found = [("rewritten parts", _parts(certificate)), ("whole models", _whole(certificate))]
    names = ", ".join(certificate.outputs[:MOST_NAMES])
    more = len(certificate.outputs) - MOST_NAMES
    found.append(("outputs", names + (f" and {more} more" if more > 0 else "")))
    if certificate.evidence is not None:
        found.append(("where they differ", str(certificate.evidence)))
    found.append(("rounding", certificate.rounding_line()))
    found.append(("rules", certificate.rules_line()))
    limits = "This is evidence on random inputs, not a proof for all inputs."
    kinds = set(certificate.rules.values())
    if kinds == {"theorem"}:
        limits += " Every rule behind this result is a theorem, for all extents and ranks."
    elif kinds and kinds <= {"theorem", "proved"}:
        limits += " Every rule that fired is proved for all inputs."
    found.append(("what it means", limits))
    return found


def _parts(certificate: Certificate) -> str:
    if not certificate.regions:
        return "none: the two graphs are the same"
    count = _count(certificate.regions, "part")
    alike = (
        f" ({thousands(certificate.distinct)} of them compared, the others are like one of these)"
        if certificate.distinct not in (0, certificate.regions)
        else ""
    )
    return (
        f"{count}{alike}, each on {_count(certificate.draws, 'random input')} in {certificate.arithmetic}, "
        f"seed {certificate.seed}: the largest relative error is {certificate.error:.1e}, "
        f"at most {certificate.tolerance:.0e} is allowed"
    )


def _whole(certificate: Certificate) -> str:
    if not certificate.whole_ran:
        return f"not run: {certificate.whole}" if certificate.whole else "not run"
    by = certificate.whole
    if certificate.lacking:
        by = f"numpy, because ONNX Runtime has no kernel for {', '.join(certificate.lacking)}"
    return (
        f"both ran once as saved, in {by}: the outputs differ by at most "
        f"{certificate.deployed_error:.1e} of their largest entry, at most "
        f"{certificate.deployed_tolerance:.0e} is allowed"
    )


def _count(count: int, name: str) -> str:
    return f"{thousands(count)} {name}{'' if count == 1 else 's'}"
