"""Import paths that were documented once keep working."""

from importlib import import_module

import pytest

import sidkit
from sidkit.moved import MOVED, RENAMED

DOCUMENTED = {
    "blend": ("blend", "co_occurrence"),
    "cluster": ("KMeans", "GMM", "Balanced", "PerParent"),
    "embeddings": ("open_embeddings",),
    "encoder": ("load", "choose"),
    "given": ("Given",),
    "level": ("Level", "Residual", "PROJECT", "SUBTRACT"),
    "prepare": ("Normalize", "RemoveMean"),
    "product": ("PQ", "OPQ"),
    "recipes": ("recipe", "RECIPES"),
    "report.behaviour": ("prefix_agreement",),
    "report.carryover": ("carryover",),
    "report.categories": ("purity",),
    "report.counting": ("counted", "counted_by_token"),
    "report.metrics": ("quality",),
    "report.neighbours": ("neighbour_agreement",),
    "retriever.logits": ("SidLogitsProcessor",),
    "scalar": ("FSQ",),
    "sequences": ("Sequences", "read_sequences"),
    "spec": ("to_plain", "from_plain"),
    "store": ("load",),
    "template": ("Template",),
    "trie": ("Trie",),
    "vae": ("fitted_rqvae", "rq_vae", "r3_vae", "RQVAE", "R3VAE"),
}


def test_every_moved_module_is_tested():
    assert set(DOCUMENTED) == set(MOVED)
    assert {name.rpartition(".")[0] for name in RENAMED} <= set(MOVED)


@pytest.mark.parametrize("path", DOCUMENTED)
def test_an_old_path_gives_the_names_it_had(path):
    old = import_module(f"sidkit.{path}")
    for name in DOCUMENTED[path]:
        assert getattr(old, name) is not None
        scope = {}
        exec(f"from sidkit.{path} import {name}", scope)  # noqa: S102
        assert scope[name] is getattr(old, name)


def test_an_old_name_is_the_new_object():
    from sidkit import encoder
    from sidkit.tokenizer.given import Given
    from sidkit.vae import fitted_rqvae

    assert fitted_rqvae is Given.rq_vae
    assert encoder.load is sidkit.embed.load
    assert sidkit.blend.blend is sidkit.embed.co_occurrence.blend


def test_a_name_that_never_was_is_an_error_that_names_the_new_home():
    with pytest.raises(AttributeError, match=r"sidkit\.blend has moved to sidkit\.embed\.co_occurrence, which has no"):
        _ = sidkit.blend.nothing
    with pytest.raises(ModuleNotFoundError):
        import_module("sidkit.nothing")
