"""Sizes as people write them, in every recipe."""

import inspect

import numpy as np
import pytest

import sidkit
from sidkit.errors import SpecError
from sidkit.sids.sizes import as_sizes
from sidkit.tokenizer.recipes import RECIPES


@pytest.mark.parametrize(
    "written, sizes",
    [
        ((16, 8), (16, 8)),
        ([16, 8], (16, 8)),
        (np.array([16, 8]), (16, 8)),
        ("16-8", (16, 8)),
        ("16,8", (16, 8)),
        ("16, 8", (16, 8)),
        (16, (16,)),
        (np.int64(16), (16,)),
        ("16", (16,)),
        (iter((16, 8)), (16, 8)),
    ],
)
def test_the_same_sizes_in_every_writing(written, sizes):
    read = as_sizes(written)
    assert read == sizes
    assert all(type(size) is int for size in read)


@pytest.mark.parametrize("written", ["16;8", "", "16-", "a", 16.0, (16, 8.5), None, True, (True, 8), (), ("16", 8)])
def test_what_cannot_be_read_is_told_how_to_write_it(written):
    with pytest.raises(SpecError, match=r"cannot read sizes .*1024-512-128, in Python also as \(1024, 512, 128\)"):
        as_sizes(written)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_them(name):
    make = RECIPES[name]
    text = "32-16-8-8-8" if ("opq" in name and name != "opq-kmeans") or "fsq" in name else "16-8-8"
    assert make(sizes=text) == make(sizes=tuple(map(int, text.split("-"))))
    assert "sizes" in inspect.signature(make).parameters
    with pytest.raises(SpecError, match="cannot read sizes 'x'"):
        make(sizes="x")
    if text.count("-") == 2:
        assert make(sizes=16) == make(sizes=(16,))
    else:
        with pytest.raises(SpecError, match=r"three sizes and its suffix, such as 1024-512-128-64-64, not \(16,\)"):
            make(sizes=16)


def test_tables_and_figures_take_them():
    codes = [[0, 1], [1, 0]]
    assert sidkit.SidTable(["a", "b"], codes, "2-2").sizes == (2, 2)
    assert sidkit.quality(codes, "2-2") == sidkit.quality(codes, (2, 2))
    assert sidkit.SidTable(["a", "b"], [[0], [1]], 2).sizes == (2,)
