"""What is printed as JSON is read back as it was."""

import msgspec
import pytest

from normbench.errors import UsageError
from normbench.inspection.figures import SCHEMA_VERSION, decode, share_of_vectors

from .handmade import inspection, variant


def test_an_inspection_survives_its_file():
    made = inspection(variant(), variant(arch="sm_80", figures=None, error="PTXASError: no"))
    assert decode(msgspec.json.encode(made), "a.json") == made


def test_pass_is_called_pass_in_the_file():
    assert msgspec.to_builtins(variant())["pass"] == "forward"


def test_fields_of_a_newer_version_are_ignored():
    built = msgspec.to_builtins(inspection(variant()), str_keys=True) | {"broken": []}
    assert decode(msgspec.json.encode(built), "a.json") == inspection(variant())


# Not JSON, JSON of another kind, of a future schema, without its variants.
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("registers", "a.json is not what"),
        ("[]", "a.json is not what"),
        (f'{{"schema_version": {SCHEMA_VERSION + 1}}}', f"schema version {SCHEMA_VERSION + 1}"),
        (f'{{"schema_version": {SCHEMA_VERSION}, "versions": {{}}}}', "variants"),
    ],
)
def test_anything_else_is_refused_by_name(text, words):
    with pytest.raises(UsageError, match=words):
        decode(text, "a.json")


@pytest.mark.parametrize(("counts", "share"), [({}, None), ({128: 3, 32: 1}, 0.75), ({256: 1, 128: 1}, 1.0), ({64: 2}, 0.0)])
def test_share_counts_128_bits_and_more(counts, share):
    assert share_of_vectors(counts) == share
