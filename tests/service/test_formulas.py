"""Formulas of the tuners as MathML: well formed, whatever a tuner writes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.service.formulas import mathml, source_of
from harness.tuning import ds2

AEOLUS = "r_o = dop f / max(l_i, ppt + f t s + f n / b) (eq. 3)"


def tree(text: str) -> ElementTree.Element:
    named = {"&ge;": "≥", "&le;": "≤", "&minus;": "−", "&lceil;": "⌈", "&rceil;": "⌉"}
    for name, character in {**named, "&lfloor;": "⌊", "&rfloor;": "⌋"}.items():
        text = text.replace(name, character)
    return ElementTree.fromstring(text)


def test_a_quotient_is_a_fraction_and_an_index_stands_below() -> None:
    math = tree(mathml(AEOLUS))
    assert len(math.findall(".//mfrac")) == 2
    assert ["".join(found.itertext()) for found in math.findall(".//msub")] == ["ro", "li"]
    assert source_of(AEOLUS) == "eq. 3"


def test_numbers_take_the_places_of_their_symbols_with_units() -> None:
    """n is given as n_us, l_i as l_i_ms; what has no number stays a symbol."""
    values = {"n_us": 0.43, "l_i_ms": 2.5, "dop": 4, "ppt_from": "measured", "t_bytes": None}
    text = "".join(tree(mathml(AEOLUS, values)).itertext())
    assert "0.43 µs" in text
    assert "2.5 ms" in text
    assert text.startswith("ro=4")
    assert "measured" not in text


def test_two_numbers_do_not_read_as_one() -> None:
    """1 times 126.5, while words and symbols stand side by side."""
    text = "".join(tree(mathml("p = u true_rate / p_now", {"u": 1, "true_rate_tps": 126.5})).itertext())
    assert text == "p=1⋅126.5 /spnow"
    assert "⋅" not in mathml("sum of rates")


@pytest.mark.parametrize("formula", [ds2.FORMULA, "p given", "ppt + f t s + f n <= l_i (line 4)"])
def test_formulas_of_words_are_math_too(formula: str) -> None:
    assert tree(mathml(formula)).find(".//mi") is not None


@given(st.text(max_size=60))
def test_whatever_is_written_is_well_formed(text: str) -> None:
    printable = "".join(c for c in text if c.isprintable())
    tree(mathml(printable, {printable or "x": 1.0}))
