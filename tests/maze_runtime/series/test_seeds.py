import pytest

from maze_kernel.errors import RequestError
from maze_runtime.series.seeds import parse_seeds


def test_single_seeds_and_ranges():
    assert parse_seeds("3") == (3,)
    assert parse_seeds("0,1,2") == (0, 1, 2)
    assert parse_seeds("0-4, 10") == (0, 1, 2, 3, 4, 10)
    assert parse_seeds("7-7") == (7,)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "'' is no seed"),
        ("a", "'a' is no seed"),
        ("1,,2", "'' is no seed"),
        ("-1", "'-1' is no seed"),
        ("5-3", "'5-3' is no seed"),
        ("1.5", "'1.5' is no seed"),
        ("0-3,2", "seed 2 is named twice"),
        ("0-20000", "more than 10000 seeds"),
    ],
)
def test_what_is_no_list_of_seeds(text, what):
    with pytest.raises(RequestError, match=what) as caught:
        parse_seeds(text)
    assert "0-9" in caught.value.expected
