"""Folders on a model hub: fetched when they are named, uploaded when asked for. Nothing else ever asks a hub.

    fitted.push_to_hub("shop/items-prq", license="apache-2.0")
    fitted = FittedTokenizer.from_pretrained("shop/items-prq")

Only the kinds of files that sidkit writes are fetched, and they are checked as those of any other folder are.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from abc import abstractmethod
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from ..errors import InputError, StoreError, need

__all__ = ["HubFolder", "hub_library"]

PATTERNS = ["*.json", "*.safetensors", "*.parquet", "*.svg", "README.md"]
REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)


class HubFolder:
    """save_pretrained, from_pretrained and push_to_hub for what saves itself as a folder."""

    @abstractmethod
    def save(self, path: str | Path) -> Any:
        """Write the folder in one step."""

    @classmethod
    @abstractmethod
    def _read(cls, folder: Path, **options: Any) -> Self:
        """Read the folder, checking all of it."""

    @abstractmethod
    def _card(self, name: str) -> str:
        """The text of its README.md."""

    def save_pretrained(self, path: str | Path) -> Path:
        """Write the folder, as `save`."""
        self.save(path)
        return Path(path)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        endpoint: str | None = None,
        **options: Any,
    ) -> Self:
        """Read a folder of this machine, or fetch one from a hub: "owner/name".

        revision: a branch, tag or commit; local_files_only: only what was fetched before; endpoint: of another hub.
        """
        if Path(name).exists():
            return cls._read(Path(name), **options)
        if not REPOSITORY.fullmatch(str(name)):
            raise StoreError(f"there is no folder {name}; a repository on a hub is named owner/name")
        hub = _hub()
        try:
            fetched = hub.snapshot_download(
                str(name), revision=revision, token=token, cache_dir=cache_dir, local_files_only=local_files_only,
                endpoint=endpoint, allow_patterns=PATTERNS,
            )  # fmt: skip
        except _failures() as error:
            raise StoreError(f"{name} is no folder of this machine, and cannot be fetched: {error}") from error
        with tempfile.TemporaryDirectory(prefix="sidkit-hub-") as folder:  # the cache consists of links
            copy = shutil.copytree(fetched, Path(folder) / str(name).rpartition("/")[2])
            return cls._read(copy, **options)

    def push_to_hub(
        self,
        repository: str,
        *,
        license: str | None = None,
        private: bool = False,
        token: str | None = None,
        revision: str | None = None,
        message: str = "Upload with sidkit",
        endpoint: str | None = None,
    ) -> str:
        """Upload the folder to "owner/name", which is made if it is new; its address.

        license: as hubs name it, such as "apache-2.0"; it is written to the head of the card.
        """
        if not REPOSITORY.fullmatch(repository):
            raise InputError(f"a repository is named owner/name, not {repository!r}")
        hub = _hub()
        api = hub.HfApi(endpoint=endpoint, token=token, library_name="sidkit")
        with tempfile.TemporaryDirectory(prefix="sidkit-hub-") as folder:
            own = Path(folder) / repository.rpartition("/")[2]
            self.save(own)
            (own / "README.md").write_text(_head(license) + self._card(own.name), encoding="utf-8")
            try:
                address = api.create_repo(repository, private=private, exist_ok=True)
                api.upload_folder(
                    repo_id=repository, folder_path=own, revision=revision, commit_message=message,
                    allow_patterns=PATTERNS,
                )  # fmt: skip
            except _failures() as error:
                raise StoreError(f"{repository} cannot be uploaded: {error}") from error
        return str(address)


def _head(license: str | None) -> str:
    """What a hub reads of a card."""
    if license is not None and not re.fullmatch(r"[\w.+-]{1,60}", license):
        raise InputError(f"a licence is an identifier such as apache-2.0, not {license!r}")
    licence = [] if license is None else [f"license: {license}"]
    return "\n".join(["---", *licence, "library_name: sidkit", "tags:", "- semantic-ids", "---", "", ""])


def _failures() -> tuple[type[Exception], ...]:
    """What huggingface_hub raises: its own errors are among the first three, those of its client are not."""
    client: Any = import_module("huggingface_hub.errors")
    return (OSError, ValueError, RuntimeError, client.HTTPError)


def _hub() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    return hub_library("hub", "fetching from a hub and uploading to one")


def hub_library(extra: str, what: str) -> Any:
    """huggingface_hub without telemetry: it reports what runs it, and asks its own site first what that may be, also
    where another hub is meant. Its setting is read when it is imported, which may have happened long ago."""
    hub = need("huggingface_hub", extra, what)
    constants: Any = import_module("huggingface_hub.constants")
    constants.HF_HUB_DISABLE_TELEMETRY = True
    return hub
