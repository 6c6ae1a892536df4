"""Every key path that tomli reads has a place where the text spells that key."""

import string

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from maze_kernel.config.positions import find_positions, split_key

DOCUMENTS = {
    "dotted and quoted": 'a.b."c d".\'e.f\' = 1\n"g=#h" = 2\n"\\u0041b" = 3\n',
    "arrays of tables": "[[a]]\nn = 1\n[[a.b]]\nm = 1\n[[a.b]]\n[a.c]\nk = 2\n[[a]]\n[[a.b]]\nm=3\n",
    "inline tables": 'p = { x = 1, y = { z = [1, { w = "}" }] }, "q r".s = 2 }\n',
    "multi-line strings": 'a = """x = 1\n[no]\\"" still """\nb = \'\'\'it\'s # no\n"""\'\'\'\nc = 3 # yes\n',
    "quotes before the closing ones": 'a = """""two"""""\nb = """x"""" \nc = 1\n',
    "multi-line arrays": 'a = [ # one\n  "]", # two ]\n  [1,\n   2,],\n  { b = 3 },\n]\nc = 1\n',
    "spaces everywhere": "  [ a . b ]  # c\n\t k\t=\t1 \n[[ d . e ]]\n f . g = 2\n",
    "headers out of order": "[a.b.c]\nx=1\n[a]\ny=2\n[a.b]\nz=3\n",
    "empty keys": '"" = 1\n[a.""]\n\'\' = 2\n',
    "no newline at the end": "[a]\nb = 1979-05-27T07:32:00Z",
    "floats and dates": "a = 1e5\nb = -inf\nc = 1979-05-27 07:32:00 # d\nd = 0x_ff\n".replace("x_", "x"),
    "only a comment": "# nothing",
    "escapes": 'a = "\\\\"\nb = "\\"#"\nc = 1\n',
}


def paths_of(data, path=()):
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from paths_of(value, (*path, key))


def assert_every_key_is_spelt(text):
    places = find_positions(text)
    data = tomli.loads(text)
    for path in paths_of(data):
        assert path in places, path
        place = places[path]
        name = path[-1] if isinstance(path[-1], str) else None
        spelt = text[place.key.start : place.key.end]
        if name is not None:
            assert list(tomli.loads(f"{spelt} = 1")) == [name]
        value = data
        for part in path:
            value = value[part]
        if not isinstance(value, (dict, list)):
            written = text[place.value.start : place.value.end]
            assert tomli.loads(f"v = {written}")["v"] == value or value != value
    return data


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_documents(text):
    assert_every_key_is_spelt(text)


scalars = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.floats(allow_nan=False).map(repr).filter(lambda text: "e" not in text or "." in text or text[0] != "."),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8).map(
        lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    ),
    st.text(st.sampled_from("ab #=[]{}\"',\n"), max_size=8).map(
        lambda text: '"""' + text.replace('"', '\\"') + '"""',
    ),
    st.text(st.sampled_from('ab #=[]{}"\\,'), max_size=8).map(lambda text: f"'{text}'"),
)
bare_keys = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=4)
keys = st.one_of(
    bare_keys,
    st.text(st.sampled_from("ab .#=[]{}'"), max_size=4).map(lambda text: f'"{text}"'),
    st.text(st.sampled_from('ab .#=[]{}"\\'), max_size=4).map(lambda text: f"'{text}'"),
)
dotted = st.lists(keys, min_size=1, max_size=3).map(" . ".join) | keys
blanks = st.sampled_from(["", " ", "\n", " # ] } = comment\n", "\n\t"])


def arrays(values):
    element = st.tuples(blanks, values, blanks).map("".join)
    return st.lists(element, max_size=4).map(lambda items: "[" + ",".join(items) + "]")


def inline_tables(values):
    pair = st.tuples(dotted, values).map(" = ".join)
    return st.lists(pair, max_size=3).map(lambda pairs: "{ " + ", ".join(pairs) + " }")


values = st.recursive(scalars, lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)
lines = st.one_of(
    st.tuples(dotted, values, st.sampled_from(["", " # note"])).map(lambda parts: f"{parts[0]} = {parts[1]}{parts[2]}"),
    dotted.map(lambda name: f"[{name}]"),
    dotted.map(lambda name: f"[[ {name} ]]"),
    st.just("# [comment] x = 1"),
)


@given(st.lists(lines, max_size=8))
def test_any_document_that_tomli_accepts(document):
    accepted = []
    for line in document:  # leaves out the lines that clash with those before them
        try:
            tomli.loads("\n".join([*accepted, line]))
        except tomli.TOMLDecodeError:
            continue
        accepted.append(line)
    assert_every_key_is_spelt("\n".join(accepted))


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a.b", ["a", "b"]), ('a."b.c".0', ["a", "b.c", "0"]), ("' '", [" "]), ("a . b", ["a", "b"])],
)
def test_split_key(text, parts):
    assert split_key(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a b", 'a."b', "ä", "a=b"])
def test_split_key_refuses(text):
    with pytest.raises(ValueError, match="not a dotted key"):
        split_key(text)
