"""Folders of sentence-transformers models, checked before anything of them is loaded.

A model's `modules.json` names the classes that it is made of, and sentence-transformers imports whatever it names, also
from a file in the folder; so does the config of a dense layer with its activation. Here only classes of
sentence-transformers itself and activations of torch are accepted, and weights only as safetensors: an encoder that
somebody sends you runs no code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.folder import read_json
from ..files.hub import hub_library
from ..files.pretrained import require_plain, settings_of

__all__ = ["folder_of", "require_safe"]

KNOWN = ("Transformer", "Pooling", "Normalize", "Dense", "StaticEmbedding")
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.md"]
WEIGHTS = "model.safetensors"  # without it, others would be unpickled
ACTIVATIONS = ("torch.nn.modules.activation.", "torch.nn.modules.linear.Identity")
ADVICE = "use another model"
LONG = 255  # characters of a folder's name


def folder_of(model: str, download: bool) -> Path:
    """The checked folder of a model: this one, or that of a name, which is fetched only with `download`."""
    folder = Path(model) if Path(model).is_dir() else _fetched(model, download)
    require_safe(folder)
    return folder


def _fetched(name: str, download: bool) -> Path:
    hub = hub_library("sentence-transformers", f"embedding with {name}")
    named = name if "/" in name else f"sentence-transformers/{name}"  # as sentence-transformers reads a bare name
    try:
        return Path(hub.snapshot_download(named, allow_patterns=PATTERNS, local_files_only=not download))
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[0][:200]
        hint = "" if download else "; models are downloaded only with --allow-download"
        raise InputError(
            f"cannot load the sentence-transformers model {name!r} ({reason}){hint}; give a folder that holds one, a "
            "name that can be downloaded, or one of wordllama, tfidf"
        ) from error


def require_safe(folder: Path) -> None:
    """An error if loading the folder could run code, or read weights that are not safetensors."""
    listing = folder / "modules.json"
    modules: Any = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    if listing.is_file():
        modules = read_json(listing, ADVICE)
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise InputError(f"{listing} does not list the modules of a model; {ADVICE}")
    for one in modules:
        kind, part = one.get("type", ""), one.get("path", "")
        if not isinstance(kind, str) or not isinstance(part, str) or len(part) > LONG or "\0" in part:
            raise InputError(f"{listing} does not name the class and the folder of every module; {ADVICE}")
        if not kind.startswith("sentence_transformers.") or kind.rpartition(".")[2] not in KNOWN:
            raise InputError(f"{listing} asks for the class {kind[:100]!r}, which is not loaded; {ADVICE}")
        inner = (folder / part).resolve()
        if inner != folder.resolve() and folder.resolve() not in inner.parents:
            raise InputError(f"{listing} leads out of its folder: {part[:100]!r}; {ADVICE}")
        _require_weights(inner, kind.rpartition(".")[2])


def _require_weights(folder: Path, kind: str) -> None:
    """An error unless a module has its weights where sentence-transformers looks for safetensors first."""
    configs = sorted(file.name for file in folder.glob("*config*.json"))  # sentence_bert_config.json is one of them
    require_plain(folder, ADVICE, tuple(configs))
    if kind == "Dense" and (folder / "config.json").is_file():
        for key, value in settings_of(read_json(folder / "config.json", ADVICE)):
            if key == "activation_function" and not str(value).startswith(ACTIVATIONS):
                named = str(value)[:100]
                raise InputError(f"{folder} asks for the activation {named!r}, which is not loaded; {ADVICE}")
    names = {"Transformer": "*.safetensors", "Dense": WEIGHTS, "StaticEmbedding": WEIGHTS}
    if kind in names and not list(folder.glob(names[kind])):
        raise InputError(f"{folder} has no weights as safetensors, and others are not loaded; {ADVICE}")
