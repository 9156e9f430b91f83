"""Folders of models of others: nothing is fetched for them, and what cannot be read is an error of sidkit."""

import errno
import json
import threading

import numpy as np
import pytest
from safetensors.numpy import save_file

from sidkit.errors import InputError
from sidkit.files.pretrained import offline, reading, require_plain, whole


def with_config(folder, plain, name="config.json"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(plain))
    return folder


def test_an_adapter_is_refused(tmp_path):
    folder = with_config(tmp_path / "m", {"base_model_name_or_path": "evil/model"}, "adapter_config.json")
    with pytest.raises(InputError, match="m is an adapter of another model, which is not loaded; take another"):
        require_plain(folder, "take another")


@pytest.mark.parametrize(
    "plain",
    [
        {"attn_implementation": "evil/kernel"},
        {"_attn_implementation": "flash_attention_2"},
        {"_attn_implementation_internal": "kernels-community/flash-attn3"},
        {"text_config": {"attn_implementation": {"": "sdpa", "vision": "evil/kernel"}}},
        {"model_args": {"use_kernels": True}},
        {"layers": [{"allow_all_kernels": True}]},
        {"experts_implementation": "evil/kernel"},
    ],
)
def test_settings_that_fetch_kernels_are_refused(tmp_path, plain):
    with pytest.raises(InputError, match=r"config\.json asks for .*, which may be fetched"):
        require_plain(with_config(tmp_path / "m", plain), "take another")


def test_usual_settings_are_accepted(tmp_path):
    plain = {"model_type": "bert", "attn_implementation": "sdpa", "_attn_implementation": None, "use_kernels": False}
    require_plain(with_config(tmp_path / "m", plain | {"parts": {"attn_implementation": {"": "eager"}}}), "")
    require_plain(tmp_path, "")


@pytest.mark.parametrize(
    "plain",
    [
        {"encoder_layers": 10**9},
        {"hidden_size": 10**6},
        {"text_config": {"head_dim": 10**6}},
        {"out_features": 2**31},
        {"n_layer": 257},
        {"max_position_embeddings": 10**9, "vocab_size": 5001},
    ],
)
def test_models_larger_than_their_weights_are_refused_before_they_are_built(tmp_path, plain):
    folder = with_config(tmp_path / "m", plain)
    require_plain(folder, "take another")  # nothing is built from a folder without weights
    save_file({"words": np.zeros((5000, 2), np.float32)}, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"config\.json asks for .*, which its weights do not have; take another"):
        require_plain(folder, "take another")


def test_sizes_that_the_weights_have_are_accepted(tmp_path):
    sizes = {"vocab_size": 5000, "hidden_size": 2, "num_hidden_layers": 2, "max_position_embeddings": 10**6}
    folder = with_config(tmp_path / "m", sizes | {"eos_token_id": 10**9, "tie_word_embeddings": True})
    save_file({"words": np.zeros((5000, 2), np.float32)}, folder / "model.safetensors")
    require_plain(folder, "")
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"cannot read the weights in .*model\.safetensors"):
        require_plain(folder, "")


def test_no_hub_is_asked_while_a_model_is_read_also_in_threads():
    hub = pytest.importorskip("huggingface_hub")
    before = hub.constants.HF_HUB_OFFLINE
    inside, leave, seen = threading.Event(), threading.Event(), []

    def read():
        with offline():
            inside.set()
            leave.wait(20)
            seen.append(hub.constants.HF_HUB_OFFLINE)

    thread = threading.Thread(target=read)
    thread.start()
    inside.wait(20)
    with offline():
        assert hub.constants.HF_HUB_OFFLINE is True
        with pytest.raises(OSError, match=r"[Oo]ffline"):
            hub.HfApi(endpoint="http://127.0.0.1:9").repo_info("evil/model")
    assert hub.constants.HF_HUB_OFFLINE is True  # the thread is not done
    leave.set()
    thread.join()
    assert seen == [True]
    assert hub.constants.HF_HUB_OFFLINE is before


@pytest.mark.parametrize(
    "error", [KeyError("model_type"), ImportError("kernels"), TypeError(), OSError("x\ny"), Exception("x")]
)
def test_what_transformers_raises_becomes_an_error_of_sidkit(tmp_path, error):
    with (
        pytest.raises(InputError, match=r"cannot read a model: .+; give another"),
        reading("read a model", "give another"),
    ):
        raise error


def test_a_full_disk_is_no_fault_of_a_model():
    with pytest.raises(OSError, match="full") as raised, reading("extend a tokenizer", "give another"):
        raise OSError(errno.ENOSPC, "full")
    assert raised.type is OSError


def test_a_model_of_which_weights_are_missing_is_refused(tmp_path):
    assert whole(("model", {"missing_keys": set(), "unexpected_keys": {"x"}})) == "model"
    told = r"cannot read a model: it has no weights a, b, c and others; give another"
    with pytest.raises(InputError, match=told), reading("read a model", "give another"):
        whole(("model", {"missing_keys": {"d", "c", "b", "a"}}))
