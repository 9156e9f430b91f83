"""Constrained generation with transformers: exhaustive scores, prefix_allowed_tokens_fn, SIDs in texts."""

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.decoding.catalogue import SidCatalogue
from sidkit.decoding.tokens import SidTokens
from sidkit.errors import InputError
from sidkit.sids.trie import Trie

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from sidkit.decoding.transformers import SidLogitsProcessor  # noqa: E402

SIZES, FIRST, BEGIN, END, WORDS = (4, 3, 3), 20, 40, 41, 50
TOKENS = SidTokens.level_major(SIZES, FIRST, BEGIN, END)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    codes = np.stack([rng.integers(0, size, 14) for size in SIZES], 1)
    return SidTable([f"i{row}" for row in range(14)], codes, SIZES)


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    marks = {"vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **marks)).eval()
    with torch.no_grad():
        model.lm_head.weight *= 30  # decided, not uniform
    return model


def t5():
    torch.manual_seed(2)
    sizes = {"d_model": 16, "d_ff": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2}
    marks = {"vocab_size": WORDS, "decoder_start_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **marks)).eval()
    with torch.no_grad():
        model.shared.weight *= 3
    return model


def beams(model, prompt, processor, many, new=4):
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=new,
        num_beams=many,
        num_return_sequences=many,
        length_penalty=0.0,
        logits_processor=[processor],
        return_dict_in_generate=True,
        output_scores=True,
    )
    return processor.sids(out.sequences, out.sequences_scores, many)


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_beams_equal_exhaustive_scoring(kind, table, llama):
    """Every SID of the catalogue is scored with the mask's own renormalisation left out: sums of log-softmax."""
    model = llama if kind == "llama" else t5()
    prompt = torch.randint(3, 20, (2, 6), generator=torch.Generator().manual_seed(0))
    trie = Trie.of(table)
    start = prompt.shape[1] if kind == "llama" else 1
    processor = SidLogitsProcessor(trie, start, [list(level) for level in TOKENS.levels], 2)
    answers = beams(model, prompt, processor, 20)
    sids = np.unique(table.codes, axis=0)
    tokens = torch.as_tensor(TOKENS.tokens(sids))
    for row, answer in zip(prompt, answers, strict=True):
        whole = torch.cat([tokens, torch.full((len(tokens), 1), 2)], 1)
        with torch.no_grad():
            if kind == "llama":
                logits = model(torch.cat([row.expand(len(tokens), -1), tokens], 1)).logits[:, len(row) - 1 :]
            else:
                begun = torch.cat([torch.zeros(len(tokens), 1, dtype=torch.long), tokens], 1)
                logits = model(input_ids=row.expand(len(tokens), -1), decoder_input_ids=begun).logits
        scores = logits.log_softmax(-1).gather(2, whole[..., None])[..., 0].sum(1)
        order = scores.argsort(descending=True)
        assert [one.codes for one in answer] == [tuple(sids[at]) for at in order]  # surplus beams are gone
        assert np.allclose([one.score for one in answer], scores[order], atol=1e-4)
        assert all(table.ids.take(one.rows).to_pylist() == table.items_of(one.codes) for one in answer)


def test_it_equals_prefix_allowed_tokens_fn(table, llama):
    prompt = torch.randint(3, 20, (3, 5), generator=torch.Generator().manual_seed(3))
    sids = [tuple(row) for row in TOKENS.tokens(np.unique(table.codes, axis=0)).tolist()]

    def follow(batch, ids):
        sid = tuple(ids[5:].tolist())
        return sorted({one[len(sid)] for one in sids if one[: len(sid)] == sid}) if len(sid) < 3 else [2]

    options = {
        "attention_mask": torch.ones_like(prompt),
        "max_new_tokens": 4,
        "num_beams": 5,
        "num_return_sequences": 5,
    }
    processor = SidLogitsProcessor(Trie.of(table), 5, [list(level) for level in TOKENS.levels], 2)
    ours = llama.generate(prompt, logits_processor=[processor], **options)
    theirs = llama.generate(prompt, prefix_allowed_tokens_fn=follow, **options)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("options", [{"do_sample": True}, {"num_beams": 4, "num_return_sequences": 4}])
def test_texts_with_several_sids(options, table, llama, tmp_path):
    """Free text, and between its markers only SIDs that exist, of items in stock."""
    SidCatalogue.of(table, TOKENS).save(tmp_path / "catalogue")
    catalogue = SidCatalogue.load(tmp_path / "catalogue")
    stock = np.arange(14) % 3 != 0
    processor = SidLogitsProcessor(catalogue, within=stock)
    torch.manual_seed(0)
    prompt = torch.tensor([[5, 6, BEGIN], [7, BEGIN, FIRST + int(table.codes[1, 0])]])
    out = llama.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=60, logits_processor=[processor], **options
    )
    sold = {tuple(codes) for codes in table.codes[stock].tolist()}
    some = 0
    for row in out.tolist():
        sid: list[int] | None = None
        for token in row:
            if token == BEGIN:
                assert sid is None
                sid = []
            elif token == END and sid is not None:
                assert len(sid) == 3
                assert TOKENS.sids_in(sid)[0] in sold
                some, sid = some + 1, None
            elif sid is not None:
                sid.append(token)
            else:
                assert not FIRST <= token < FIRST + sum(SIZES)  # no token of a SID in text
    assert some >= len(out)


def test_a_position_needs_an_end(table):
    with pytest.raises(InputError, match="name the token that ends a SID"):
        SidLogitsProcessor(Trie.of(table), 3, end=None)


def test_tokens_of_a_transformers_tokenizer(table, tmp_path):
    from tokenizers import Tokenizer, models

    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"hello": 0, "[UNK]": 1}, unk_token="[UNK]")), unk_token="[UNK]"
    )
    template = table.template
    words.add_tokens([word for level, size in enumerate(SIZES) for word in template.words(level, size)])
    words.add_tokens(["<sid>"])
    known = SidTokens.of_tokenizer(words, SIZES, template, begin="<sid>")
    assert [level.tolist() for level in known.levels] == [[2, 3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert known.begin == 12
    with pytest.raises(InputError, match=r"has no token '</sid>'"):
        SidTokens.of_tokenizer(words, SIZES, template, end="</sid>")
    from command import sidkit

    words.save_pretrained(tmp_path / "words")
    table.to_parquet(tmp_path / "sids.parquet")
    sidkit("trie", "sids.parquet", "-o", "catalogue", "--hf-tokenizer", "words", "--begin", "<sid>", cwd=tmp_path)
    assert SidCatalogue.load(tmp_path / "catalogue").tokens.begin == 12
