"""The classes for vLLM and SGLang, over stand-ins with the documented interfaces of vLLM 0.32 and SGLang 0.5.23.

Neither server installs without CUDA. What is tested here is our half: the state from what the server tells, and the
mask. The stand-ins have the signatures of the servers' own base classes and nothing of their code. vLLM's own interface
modules, which need torch alone, are tested against where an unpacked wheel is named:

    pip download --no-deps vllm==0.32.0 && unzip -q vllm-*.whl 'vllm/v1/*' -d source
    VLLM_SOURCE=source pytest tests/decoding/test_servers.py

SGLang's, which needs dill too, is tested against where sglang lies on the path, as `make readers` has it.
"""

import inspect
import os
import sys
from abc import ABC, abstractmethod
from array import array
from dataclasses import fields
from enum import Enum
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.decoding.catalogue import SidCatalogue
from sidkit.decoding.tokens import SidTokens
from sidkit.errors import MissingExtraError, SpecError

torch = pytest.importorskip("torch")

BEGIN, END = 8, 9
TABLE = SidTable(list("abc"), [[0, 1], [0, 0], [1, 1]], (2, 2))  # tokens 4, 5 and 6, 7


class LogitsProcessorV1(ABC):
    @abstractmethod
    def __init__(self, vllm_config, device, is_pin_memory): ...
    @abstractmethod
    def apply(self, logits): ...
    @abstractmethod
    def is_argmax_invariant(self): ...
    @abstractmethod
    def update_state(self, batch_update): ...


class LogitsProcessorV2(ABC):
    @abstractmethod
    def __init__(self, vllm_config, req_states): ...
    @abstractmethod
    def add_request(self, req_idx, sampling_params): ...
    @abstractmethod
    def apply(self, logits, ctx): ...


class CustomLogitProcessor(ABC):
    @abstractmethod
    def __call__(self, logits, custom_param_list): ...
    @classmethod
    def to_str(cls):
        return f'{{"callable": "{cls.__module__}.{cls.__name__}"}}'


class MoveDirectionality(Enum):
    UNIDIRECTIONAL = 0
    SWAP = 1


@pytest.fixture
def servers(monkeypatch, tmp_path):
    """Modules of the names that the servers have; a catalogue's folder."""
    homes = {
        "vllm.v1.sample.logits_processor": {"LogitsProcessor": LogitsProcessorV1},
        "vllm.v1.worker.gpu.sample.logits_processor": {"LogitsProcessor": LogitsProcessorV2},
        "sglang.srt.sampling.custom_logit_processor": {"CustomLogitProcessor": CustomLogitProcessor},
    }
    for home, names in homes.items():
        words = home.split(".")
        for depth in range(1, len(words) + 1):
            name = ".".join(words[:depth])
            module = sys.modules.get(name) or ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
        for key, value in names.items():
            setattr(sys.modules[home], key, value)
    for ours in ("sidkit.decoding.vllm", "sidkit.decoding.sglang"):
        monkeypatch.delitem(sys.modules, ours, raising=False)
    folder = tmp_path / "catalogue"
    SidCatalogue.of(TABLE, SidTokens.level_major((2, 2), 4, BEGIN, END)).save(folder)
    monkeypatch.setenv("SIDKIT_CATALOGUE", str(folder))
    yield folder
    for ours in ("sidkit.decoding.vllm", "sidkit.decoding.sglang"):
        sys.modules.pop(ours, None)


def kept(logits):
    return [(row > -torch.inf).nonzero()[:, 0].tolist() for row in logits]


FREE = [0, 1, 2, 3, 8, 9]


class TestVllm:
    def test_v1_follows_requests_that_come_go_and_move(self, servers):
        from sidkit.decoding.vllm import SidTrieV1

        one = SidTrieV1(None, torch.device("cpu"), False)
        assert isinstance(one, LogitsProcessorV1)
        assert not one.is_argmax_invariant()
        outputs = [[], [], [5]]
        added = [(0, None, [1, 2], outputs[0]), (1, None, [BEGIN], outputs[1]), (2, None, [3, BEGIN], outputs[2])]
        one.update_state(SimpleNamespace(batch_size=3, removed=[], added=added, moved=[]))
        assert kept(one.apply(torch.zeros(3, 10))) == [FREE, [4, 5], [7]]
        outputs[1].append(4)  # live lists
        one.update_state(None)
        assert kept(one.apply(torch.zeros(3, 10))) == [FREE, [6, 7], [7]]
        moved = [(0, 2, MoveDirectionality.SWAP)]
        one.update_state(SimpleNamespace(batch_size=3, removed=[], added=[], moved=moved))
        assert kept(one.apply(torch.zeros(3, 10))) == [[7], [6, 7], FREE]
        moved = [(2, 0, MoveDirectionality.UNIDIRECTIONAL)]
        one.update_state(SimpleNamespace(batch_size=2, removed=[0], added=[], moved=moved))
        assert kept(one.apply(torch.zeros(2, 10))) == [FREE, [6, 7]]

    def test_v2_finds_the_last_tokens_of_every_row(self, servers):
        from sidkit.decoding.vllm import SidTrieV2

        ids = torch.zeros(4, 6, dtype=torch.int32)
        ids[1, :3] = torch.tensor([1, BEGIN, 4])
        ids[3, :1] = BEGIN
        states = SimpleNamespace(all_token_ids=SimpleNamespace(gpu=ids))
        one = SidTrieV2(None, states)
        assert isinstance(one, LogitsProcessorV2)
        assert one.add_request(0, None)
        context = SimpleNamespace(
            expanded_idx_mapping=torch.tensor([3, 1, 0]),
            expanded_local_pos=torch.zeros(3, dtype=torch.int32),
            input_ids=torch.tensor([BEGIN, 4, 0]),
            pos=torch.tensor([0, 2, 4]),
        )
        assert kept(one.apply(torch.zeros(3, 10), context)) == [[4, 5], [6, 7], FREE]

    def test_v2_reads_draft_tokens_from_the_inputs(self, servers):
        """Under speculative decoding a request has a row per draft, and drafts are not among its committed tokens."""
        from sidkit.decoding.vllm import SidTrieV2

        ids = torch.zeros(2, 6, dtype=torch.int32)
        ids[1, :2] = torch.tensor([1, BEGIN])
        one = SidTrieV2(None, SimpleNamespace(all_token_ids=SimpleNamespace(gpu=ids)))
        context = SimpleNamespace(
            expanded_idx_mapping=torch.tensor([1, 1, 1]),
            expanded_local_pos=torch.tensor([0, 1, 2]),
            input_ids=torch.tensor([BEGIN, 5, 7]),
            pos=torch.tensor([1, 2, 3]),
        )
        assert kept(one.apply(torch.zeros(3, 10), context)) == [[4, 5], [7], [END]]

    def test_the_catalogue_must_be_named(self, servers, monkeypatch):
        from sidkit.decoding.vllm import SidTrieV2

        monkeypatch.delenv("SIDKIT_CATALOGUE")
        with pytest.raises(SpecError, match="SIDKIT_CATALOGUE=catalogue/"):
            SidTrieV2(None, None)


class TestSglang:
    def test_rows_of_several_catalogues(self, servers, tmp_path):
        from sidkit.decoding.sglang import SidTrieProcessor

        other = tmp_path / "other"
        small = SidTable(list("ab"), np.array([[1, 0], [1, 1]]), (2, 2))
        SidCatalogue.of(small, SidTokens.level_major((2, 2), 4, BEGIN, END)).save(other)

        def request(path, prompt, output):
            made = SimpleNamespace(origin_input_ids=prompt, output_ids=output)
            return {"catalogue": str(path), "__req__": made}

        rows = [request(servers, [1, BEGIN], []), request(other, [1, BEGIN], []), request(servers, [BEGIN], [5])]
        assert kept(SidTrieProcessor()(torch.zeros(3, 10), rows)) == [[4, 5], [5], [7]]

    def test_a_request_names_class_and_catalogue(self, servers):
        from sidkit.decoding.sglang import sid_request

        body = sid_request("next: ", "catalogue/", {"temperature": 0.0})
        assert body["sampling_params"] == {"temperature": 0.0, "custom_params": {"catalogue": "catalogue/"}}
        assert "sidkit.decoding.sglang.SidTrieProcessor" in body["custom_logit_processor"]

    def test_beams_are_refused_in_words(self, servers):
        from sidkit.decoding.sglang import SidTrieProcessor, sid_request

        with pytest.raises(SpecError, match="beam search ignores logits processors"):
            sid_request("next: ", "catalogue/", {"beam_width": 8})
        wide = SimpleNamespace(origin_input_ids=[BEGIN], output_ids=[], sampling_params=SimpleNamespace(beam_width=4))
        with pytest.raises(SpecError, match="beam search ignores logits processors"):
            SidTrieProcessor()(torch.zeros(1, 10), [{"catalogue": str(servers), "__req__": wide}])

    def test_draft_tokens_are_refused_in_words(self, servers):
        from sidkit.decoding.sglang import SidTrieProcessor

        one = SimpleNamespace(origin_input_ids=[BEGIN], output_ids=[])
        with pytest.raises(SpecError, match="speculative decoding"):
            SidTrieProcessor()(torch.zeros(2, 10), [{"catalogue": str(servers), "__req__": one}] * 2)


def sglang_interface(monkeypatch):
    """SGLang's own module of logit processors, without the package around it."""
    pytest.importorskip("dill", reason="SGLang's interface needs dill")
    found = find_spec("sglang")
    if found is None:
        pytest.skip("sglang is not on the path (make readers)")
    path = Path(found.submodule_search_locations[0]) / "srt" / "sampling" / "custom_logit_processor.py"
    spec = spec_from_file_location("sglang_interface", path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_class_goes_through_sglang_itself(monkeypatch, request):
    real = sglang_interface(monkeypatch)
    folder = request.getfixturevalue("servers")
    home = sys.modules["sglang.srt.sampling.custom_logit_processor"]
    monkeypatch.setattr(home, "CustomLogitProcessor", real.CustomLogitProcessor)
    from sidkit.decoding.sglang import SidTrieProcessor, sid_request

    ours, theirs = (inspect.signature(kind.__call__) for kind in (SidTrieProcessor, real.CustomLogitProcessor))
    assert list(ours.parameters) == list(theirs.parameters)
    sent = sid_request("next: ", folder, {"temperature": 0.0})
    processor = real.CustomLogitProcessor.from_str(sent["custom_logit_processor"])  # as the server does
    assert isinstance(processor, real.CustomLogitProcessor)
    asked = SimpleNamespace(origin_input_ids=array("q", [1, BEGIN]), output_ids=array("q", [4]))
    params = [{**sent["sampling_params"]["custom_params"], "__req__": asked}]
    assert kept(processor(torch.zeros(1, 10), params)) == [[6, 7]]
    assert not real.supports_sampling_mask(sent["custom_logit_processor"])


def vllm_interface(monkeypatch, generation):
    """vLLM's own interface module, from the unpacked wheel that VLLM_SOURCE names."""
    if not os.environ.get("VLLM_SOURCE"):
        pytest.skip("VLLM_SOURCE names no unpacked wheel of vLLM; vLLM itself installs with CUDA only")
    path = Path(os.environ["VLLM_SOURCE"]) / "vllm" / "v1" / {1: "sample", 2: "worker/gpu/sample"}[generation]
    vllm = ModuleType("vllm")
    vllm.SamplingParams = object  # the one name of the package that the interface of V1 imports
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    spec = spec_from_file_location(f"vllm_interface_{generation}", path / "logits_processor" / "interface.py")
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("generation", [1, 2])
def test_classes_fit_the_interfaces_of_vllm_itself(servers, monkeypatch, generation):
    real = vllm_interface(monkeypatch, generation)
    home = {1: "vllm.v1.sample.logits_processor", 2: "vllm.v1.worker.gpu.sample.logits_processor"}[generation]
    monkeypatch.setattr(sys.modules[home], "LogitsProcessor", real.LogitsProcessor)
    import sidkit.decoding.vllm as ours

    made = getattr(ours, f"SidTrieV{generation}")
    assert issubclass(made, real.LogitsProcessor)
    for name, theirs in inspect.getmembers(real.LogitsProcessor, callable):
        if not name.startswith("__") or name == "__init__":
            expected, own = (list(inspect.signature(one).parameters) for one in (theirs, getattr(made, name)))
            assert own == expected, name
    if generation == 1:
        one = made(None, torch.device("cpu"), False)
        one.update_state(real.BatchUpdate(1, [], [(0, None, [BEGIN], [])], []))
        assert kept(one.apply(torch.zeros(1, 10))) == [[4, 5]]
        moved = [(0, 1, real.MoveDirectionality.UNIDIRECTIONAL)]
        one.update_state(real.BatchUpdate(2, [], [], moved))
        assert kept(one.apply(torch.zeros(2, 10))) == [FREE, [4, 5]]
    else:
        names = {field.name for field in fields(real.LogitsContext)}
        assert {"expanded_idx_mapping", "expanded_local_pos", "input_ids", "pos"} <= names
        assert "all_token_ids" in {field.name for field in fields(real.LogitsProcRequestState)}


@pytest.mark.parametrize("module, name", [("vllm", "SidTrieV2"), ("sglang", "SidTrieProcessor")])
def test_a_missing_server_is_named(module, name, monkeypatch):
    from importlib import import_module

    if module in sys.modules:
        pytest.skip(f"{module} is installed")
    ours = import_module(f"sidkit.decoding.{module}")
    with pytest.raises(MissingExtraError, match=module):
        getattr(ours, name)
