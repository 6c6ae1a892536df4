"""Conditions on options: what they take, and what they and those of attrs say about themselves."""

import attrs
import pytest
from attrs import validators

from maze_kernel.config.bounds import expected_by, schema_by
from maze_kernel.validators import (
    above,
    all_of,
    at_least,
    at_most,
    below,
    between,
    each,
    length_at_least,
    matches,
    one_of,
    optional,
)

CONDITIONS = [
    (at_least(1), [1, 2.5], [0.5, float("nan")], ">= 1", {"minimum": 1}),
    (above(0.0), [0.1], [0, -1], "> 0.0", {"exclusiveMinimum": 0.0}),
    (at_most(-1), [-1, -2], [0], "<= -1", {"maximum": -1}),
    (below(2), [1], [2], "< 2", {"exclusiveMaximum": 2}),
    (between(0, 1), [0, 0.5, 1], [-0.1, 1.1], ">= 0 and <= 1", {"minimum": 0, "maximum": 1}),
    (
        all_of(above(0), below(1)),
        [0.5],
        [0, 1],
        "> 0 and < 1",
        {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
    (one_of(("a", 'b"')), ["a"], ["c", 1], 'one of "a", "b\\""', {"enum": ["a", 'b"']}),
    (matches("[a-z]+"), ["ab"], ["ab1", ""], "text that matches [a-z]+", {"pattern": "^(?:[a-z]+)$"}),
    (length_at_least(2), [(1, 2), "abc"], [(), "a"], "at least 2 long", {}),
    (each(above(1)), [(), (2, 3)], [(1, 2)], "each > 1", {}),
    (optional(at_least(1)), [None, 1], [0], ">= 1", {"minimum": 1}),
]


@pytest.mark.parametrize(("condition", "good", "bad", "expected", "schema"), CONDITIONS)
def test_a_condition_takes_what_it_says(condition, good, bad, expected, schema):
    options = attrs.make_class("Options", {"value": attrs.field(validator=condition)})
    assert [options(value).value for value in good] == good
    for value in bad:
        with pytest.raises(ValueError, match="value") as refusal:
            options(value)
        assert str(refusal.value) == f"'value' must be {expected}: {value!r}"
    assert expected_by(condition) == expected
    assert schema_by(condition) == schema


def own(_instance, _attribute, value):
    """A validator of a third party."""


own.expected = "an even number"


@pytest.mark.parametrize(
    ("validator", "expected", "schema"),
    [
        (validators.ge(1), ">= 1", {"minimum": 1}),
        (
            validators.and_(validators.gt(0), validators.lt(1)),
            "> 0 and < 1",
            {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
        ),
        (validators.and_(at_least(0), own), ">= 0 and an even number", {"minimum": 0}),
        (validators.optional([validators.ge(0), validators.le(1)]), ">= 0 and <= 1", {"minimum": 0, "maximum": 1}),
        (validators.in_(("a", "b")), 'one of "a", "b"', {"enum": ["a", "b"]}),
        (own, "an even number", {}),
    ],
)
def test_validators_of_others_are_understood(validator, expected, schema):
    assert expected_by(validator) == expected
    assert schema_by(validator) == schema


@pytest.mark.parametrize(
    "validator",
    [
        None,
        int,
        lambda _instance, _attribute, _value: None,
        validators.instance_of(int),
        validators.not_(validators.ge(1)),
        validators.or_(validators.ge(1), validators.le(-1)),
        validators.matches_re("a+"),
        validators.deep_iterable(validators.ge(1)),
        validators.min_len(1),
    ],
)
def test_nothing_is_said_about_what_is_not_understood(validator):
    assert expected_by(validator) is None
    assert schema_by(validator) == {}
