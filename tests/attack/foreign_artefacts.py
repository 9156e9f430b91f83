"""Models of others that sidkit starts from: a BART, an encoder of sentence-transformers, a language model to extend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artefact import ROWS, Artefact, digest_of

WORDS = ["<pad>", "</s>", "<unk>", "red", "blue", "shoe", "hat", "<", ">", "_", "a", "b", *"0123456789"]


def make_start(folder: Path) -> None:
    from sidkit.search.bart.shape import BartShape, build_bart

    shape = BartShape(layers=1, d_model=8, d_ff=8, heads=1, positions=16)
    build_bart(shape, 64, {"pad": 1, "bos": 0, "eos": 2}).save_pretrained(folder / "bart")


def use_start(folder: Path) -> Any:
    from sidkit.search.model.start import plan_of_folder, start_of
    from sidkit.search.training.plan import SearchPlan

    plan = plan_of_folder(SearchPlan(longest=16), folder / "bart")
    weights = start_of(folder / "bart", plan.shape)
    return plan.shape, digest_of(*(weights[name].numpy() for name in sorted(weights)))


def _tokenizer() -> Any:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special)


def make_sentence(folder: Path) -> None:
    """A folder of sentence-transformers: a tiny BERT, the mean of its tokens, and a dense layer."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=16,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder / "words")
    _tokenizer().save_pretrained(folder / "words")
    words = Transformer(str(folder / "words"), max_seq_length=16)
    dense = Dense(8, 4, activation_function=torch.nn.Tanh())
    SentenceTransformer(modules=[words, Pooling(8), dense], device="cpu").save(
        str(folder / "model"), create_model_card=False
    )
    for file in sorted((folder / "words").iterdir()):
        file.unlink()
    (folder / "words").rmdir()


def use_sentence(folder: Path) -> Any:
    from sidkit.embed.choose import choose

    return digest_of(choose(str(folder / "model"), device="cpu").embed(["red shoe", "blue hat", ""]).round(4))


def make_language_model(folder: Path) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "base")
    _tokenizer().save_pretrained(folder / "base")


def use_language_model(folder: Path) -> Any:
    from sidkit.export.job import export
    from sidkit.export.target import ExportJob
    from sidkit.tokenizer.recipes import recipe

    fitted = recipe("prq-kmeans", sizes=(3, 2), iterations=1).fit(ROWS, seed=0)
    job = ExportJob(fitted=fitted, options={"model": str(folder / "base")})
    return export("huggingface", job, folder / "out")["files"]


FOREIGN = {
    "start": Artefact(make_start, use_start, checked=False),
    "sentence": Artefact(make_sentence, use_sentence, checked=False),
    "language-model": Artefact(make_language_model, use_language_model, checked=False),
}
