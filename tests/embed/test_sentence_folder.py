"""A sentence-transformers folder runs no code, and nothing is fetched that was not asked for."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from sidkit.embed.sentence_folder import folder_of, require_safe
from sidkit.errors import InputError

GOOD = [
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def written(folder, modules, weights="model.safetensors"):
    folder.mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules))
    save_file({"rows": np.zeros((2, 3), np.float32)}, folder / weights)
    return folder


def test_known_modules_with_safetensors_are_accepted(tmp_path):
    assert folder_of(str(written(tmp_path / "m", GOOD)), download=False) == tmp_path / "m"


@pytest.mark.parametrize(
    "kind",
    [
        "evil.Module",
        "m.evil.Module",
        "sentence_transformers.models.Evil",
        "os.system",
        "",
        "sentence_transformersx.Dense",
    ],
)
def test_other_classes_are_refused_by_name(tmp_path, kind):
    folder = written(tmp_path / "m", [*GOOD, {"path": "2_Evil", "type": kind}])
    (folder / "evil.py").write_text("raise SystemExit(99)")
    with pytest.raises(InputError, match="which is not loaded"):
        require_safe(folder)


def test_pickled_weights_are_refused(tmp_path):
    with pytest.raises(InputError, match="no weights as safetensors"):
        require_safe(written(tmp_path / "m", GOOD, "pytorch_model.bin"))
    dense = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    folder = written(tmp_path / "n", [*GOOD, dense])
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="2_Dense has no weights as safetensors"):
        require_safe(folder)


def test_weights_under_another_name_do_not_excuse_pickled_ones(tmp_path):
    dense = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    folder = written(tmp_path / "m", [*GOOD, dense])
    (folder / "2_Dense").mkdir()
    for name in ("pytorch_model.bin", "other.safetensors"):
        (folder / "2_Dense" / name).write_bytes(b"")
    with pytest.raises(InputError, match="2_Dense has no weights as safetensors"):
        require_safe(folder)


def test_an_adapter_of_another_model_is_refused(tmp_path):
    folder = written(tmp_path / "m", GOOD)
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/model"}')
    with pytest.raises(InputError, match="adapter of another model"):
        require_safe(folder)


def test_paths_stay_in_the_folder(tmp_path):
    out = {"path": "../other", "type": "sentence_transformers.models.Normalize"}
    with pytest.raises(InputError, match="leads out of its folder"):
        require_safe(written(tmp_path / "m", [*GOOD, out]))


@pytest.mark.parametrize("path", [[2] * 2000, "x" * 300, "a\0b", None])
def test_paths_that_no_folder_can_have_are_refused(tmp_path, path):
    with pytest.raises(InputError, match="does not name the class and the folder of every module"):
        require_safe(written(tmp_path / "m", [*GOOD, {"path": path, "type": GOOD[0]["type"]}]))


@pytest.mark.parametrize("content", ["{}", "[1]", '["a"]'])
def test_listings_that_are_none(tmp_path, content):
    folder = written(tmp_path / "m", GOOD)
    (folder / "modules.json").write_text(content)
    with pytest.raises(InputError, match="does not list the modules"):
        require_safe(folder)


def test_a_name_is_looked_for_on_this_machine_only(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    asked = []

    def snapshot(name, **options):
        asked.append((name, options["local_files_only"]))
        raise FileNotFoundError("not in the cache")

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    with pytest.raises(InputError, match="are downloaded only with allow_download"):
        folder_of("all-MiniLM-L6-v2", download=False)
    with pytest.raises(InputError, match=r"model 'shop/model' \(not in the cache\)"):
        folder_of("shop/model", download=True)
    assert asked == [("sentence-transformers/all-MiniLM-L6-v2", True), ("shop/model", False)]


def test_a_saved_encoder_cannot_allow_downloads():
    from sidkit.embed.sentence import Sentence

    with pytest.raises(ValueError, match="allow_download"):
        Sentence.restore({"model": "a/b", "d": None, "allow_download": True}, {})


@pytest.mark.parametrize(
    "name, plain",
    [
        ("config.json", {"attn_implementation": "evil/kernel"}),
        ("sentence_bert_config.json", {"model_args": {"allow_all_kernels": True}}),
        ("sentence_bert_config.json", {"model_args": {"attn_implementation": "flash_attention_2"}}),
    ],
)
def test_kernels_of_a_hub_are_refused(tmp_path, name, plain):
    folder = written(tmp_path / "m", GOOD)
    (folder / name).write_text(json.dumps(plain))
    with pytest.raises(InputError, match=f"{name} asks for .*, which may be fetched"):
        require_safe(folder)


def test_activations_of_a_dense_layer_are_those_of_torch(tmp_path):
    dense = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    folder = written(tmp_path / "m", [*GOOD, dense])
    (folder / "2_Dense").mkdir()
    save_file({}, folder / "2_Dense" / "model.safetensors")
    config = folder / "2_Dense" / "config.json"
    config.write_text(json.dumps({"activation_function": "torch.nn.modules.activation.Tanh"}))
    require_safe(folder)
    for other in ("evil.run", "torch.hub.load", "os.abort", 7):
        config.write_text(json.dumps({"activation_function": other}))
        with pytest.raises(InputError, match=r"asks for the activation .*, which is not loaded"):
            require_safe(folder)
