"""Errors of YAML texts, described on one line."""

from __future__ import annotations


def yaml_reason(error: Exception) -> str:
    """Return the text of an error of PyYAML, with the line first if the error knows it.

    >>> import yaml
    >>> try:
    ...     yaml.safe_load("operators: [min")
    ... except yaml.YAMLError as error:
    ...     print(yaml_reason(error))
    line 1: expected ',' or ']', but got the end
    """
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}: {problem.replace(repr('<stream end>'), 'the end')}"
