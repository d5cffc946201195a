"""What is wrong with a YAML text, on one line."""

import pytest
import yaml

from workbench.support.yaml_errors import yaml_reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: [1", "line 2: expected ',' or ']', but got the end"),
        ("a: 1\nb: c: d", "line 2: mapping values are not allowed here"),
        ("\t- x", "line 1: found character '\\t' that cannot start any token"),
        ("a: \x01", "unacceptable character #x0001: special characters are not allowed in"),
    ],
)
def test_the_line_comes_first(text, reason):
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.safe_load(text)
    assert yaml_reason(caught.value).startswith(reason)
    assert "\n" not in yaml_reason(caught.value)
