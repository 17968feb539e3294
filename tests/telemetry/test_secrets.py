"""Secrets are masked and nothing else is: each example of secrets.toml, in text and as arguments."""

import sys
from pathlib import Path

import pytest

from gputel.telemetry import secrets

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLES = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text())
MASKED = [(rule, text) for rule, table in EXAMPLES.items() for text in table["masked"]]
KEPT = [(rule, text) for rule, table in EXAMPLES.items() for text in table["kept"]]

IN_ONE_ARGUMENT = ("private key", "header", "header option", "JSON", "colon", "piped password")


def plain_and_masked(example: str) -> tuple[str, str]:
    """The examples enclose each secret in «»."""
    masked, rest = "", example
    while "«" in rest:
        before, _, rest = rest.partition("«")
        masked += before + secrets.MASK
        rest = rest.partition("»")[2]
    return example.replace("«", "").replace("»", ""), masked + rest


def test_table_has_a_row_for_each_rule_and_at_least_200_examples_of_each_side() -> None:
    assert list(EXAMPLES) == [rule.name for rule in secrets.rules()]
    assert all(table["masked"] and table["kept"] for table in EXAMPLES.values())
    assert len(set(MASKED)) >= 200
    assert len(set(KEPT)) >= 200


@pytest.mark.parametrize(("rule", "example"), MASKED)
def test_secret_is_masked_in_text_and_nothing_beside_it(rule: str, example: str) -> None:
    text, masked = plain_and_masked(example)
    assert secrets.mask(text) == masked
    assert secrets.mask(masked) == masked


@pytest.mark.parametrize(("rule", "example"), MASKED)
def test_secret_is_masked_in_arguments(rule: str, example: str) -> None:
    text, masked = plain_and_masked(example)
    assert secrets.mask_argv(["bash", "-c", text]) == ["bash", "-c", masked]
    if rule not in IN_ONE_ARGUMENT and not {"'", '"', ";"} & set(text) and " = " not in text:
        assert secrets.mask_argv(text.split()) == masked.split()


@pytest.mark.parametrize(("rule", "text"), KEPT)
def test_text_that_merely_looks_like_a_secret_is_kept(rule: str, text: str) -> None:
    assert secrets.mask(text) == text
    assert secrets.mask_argv(["bash", "-c", text]) == ["bash", "-c", text]
    if ";" not in text:
        assert secrets.mask_argv(text.split()) == text.split()
