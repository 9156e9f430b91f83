"""What the model reads and writes in each stage, written out by hand; and templates of a user's own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="the search model needs tokenizers")
pytest.importorskip("torch", reason="the search model needs torch")

from sidkit.errors import SpecError
from sidkit.search.templates import FIELDS, FOLDER, STAGES, read_templates
from sidkit.search.training.plan import SearchPlan
from sidkit.search.training.stages import training_stages
from toy_corpus import corpus, sequences, tokens

# SIDs of the queries "red mug", "lamp", "   ", "mug", and of the items Red Mug, Blue Mug, one without title, Green Lamp
RED, LAMP, BLANK, MUG = "<a_0><b_1><c_0>", "<a_3><b_2><c_1>", "<a_1><b_1><c_1>", "<a_0><b_0><c_0>"
A, B, C, D = "<a_0><b_1><c_1>", "<a_0><b_2><c_0>", "<a_2><b_0><c_1>", "<a_3><b_2><c_0>"
LATER = (
    "<a_2><b_2><c_1>"  # the user after three and after four clicks: ceil of (1.36, 1.78, 0.22), of (1.97, 1.86, 0.14)
)

ENGLISH = {
    "content": [
        ("query: red mug", RED), ("query: lamp", LAMP), ("query: mug", MUG),
        (f"query of{RED}", "red mug"), (f"query of{LAMP}", "lamp"), (f"query of{MUG}", "mug"),
        ("item: red mug", A), ("item: blue mug", B), ("item: green lamp", D),
        (f"item of{A}", "red mug"), (f"item of{B}", "blue mug"), (f"item of{D}", "green lamp"),
        ("category of item: red mug", "kitchen/mugs"), ("category of item: blue mug", "kitchen/mugs"),
        (f"category of{A}", "kitchen/mugs"), (f"category of{B}", "kitchen/mugs"), (f"category of{C}", "kitchen/pots"),
        ("category of query: red mug", "kitchen/mugs"), ("category of query: mug", "kitchen/mugs"),
    ],
    "pairs": [
        ("item for query: red mug", "red mug"), ("item for query: mug", "blue mug"),
        ("item for query: mug", "green lamp"), ("item for query: lamp", "green lamp"),
        ("item for query: mug", "red mug"), ("item for query: lamp", "green lamp"),
        ("query for item: red mug", "red mug"), ("query for item: blue mug", "mug"),
        ("query for item: green lamp", "mug"), ("query for item: green lamp", "lamp"),
        ("query for item: red mug", "mug"), ("query for item: green lamp", "lamp"),
        (f"item for{RED}", A), (f"item for{MUG}", B), (f"item for{MUG}", D), (f"item for{LAMP}", D),
        (f"item for{MUG}", A), (f"item for{LAMP}", D), (f"item for{BLANK}", C), (f"item for{LAMP}", C),
        (f"query for{A}", RED), (f"query for{B}", MUG), (f"query for{D}", MUG), (f"query for{D}", LAMP),
        (f"query for{A}", MUG), (f"query for{D}", LAMP), (f"query for{C}", BLANK), (f"query for{C}", LAMP),
    ],
    "personal": [
        (f"user: female 30 queries: items: query: red mug{RED}", A),
        (f"user:{A}{A} female 30 queries: red mug items:{A} query: mug{MUG}", B),
        (f"user:{A}{A} female 30 queries: red mug items:{A} query: mug{MUG}", D),
        (f"user:{LATER}{LATER} female 30 queries: red mug mug mug items:{A}{B}{D} query: lamp{LAMP}", D),
        (f"user: male 41 queries: items: query: mug{MUG}", A),
        (f"user: queries: items: query: lamp{LAMP}", D),
        (f"user:{A}{A} male 41 queries: mug items:{A} query:{BLANK}", C),
        (f"user:{LATER}{LATER} female 30 queries: mug mug lamp items:{A}{B}{D}{D} query: lamp{LAMP}", C),
    ],
}  # fmt: skip

CHINESE = {
    "content": [
        ("查询: red mug", RED), ("查询: lamp", LAMP), ("查询: mug", MUG),
        (f"{RED} 对应的查询", "red mug"), (f"{LAMP} 对应的查询", "lamp"), (f"{MUG} 对应的查询", "mug"),
        ("商品: red mug", A), ("商品: blue mug", B), ("商品: green lamp", D),
        (f"{A} 对应的商品", "red mug"), (f"{B} 对应的商品", "blue mug"), (f"{D} 对应的商品", "green lamp"),
        ("商品类目: red mug", "kitchen/mugs"), ("商品类目: blue mug", "kitchen/mugs"),
        (f"{A} 的类目", "kitchen/mugs"), (f"{B} 的类目", "kitchen/mugs"), (f"{C} 的类目", "kitchen/pots"),
        ("查询类目: red mug", "kitchen/mugs"), ("查询类目: mug", "kitchen/mugs"),
    ],
    "pairs": [
        ("查询对应的商品: red mug", "red mug"), ("查询对应的商品: mug", "blue mug"),
        ("查询对应的商品: mug", "green lamp"), ("查询对应的商品: lamp", "green lamp"),
        ("查询对应的商品: mug", "red mug"), ("查询对应的商品: lamp", "green lamp"),
        ("商品对应的查询: red mug", "red mug"), ("商品对应的查询: blue mug", "mug"),
        ("商品对应的查询: green lamp", "mug"), ("商品对应的查询: green lamp", "lamp"),
        ("商品对应的查询: red mug", "mug"), ("商品对应的查询: green lamp", "lamp"),
        (f"{RED} 对应的商品", A), (f"{MUG} 对应的商品", B), (f"{MUG} 对应的商品", D), (f"{LAMP} 对应的商品", D),
        (f"{MUG} 对应的商品", A), (f"{LAMP} 对应的商品", D), (f"{BLANK} 对应的商品", C), (f"{LAMP} 对应的商品", C),
        (f"{A} 对应的查询", RED), (f"{B} 对应的查询", MUG), (f"{D} 对应的查询", MUG), (f"{D} 对应的查询", LAMP),
        (f"{A} 对应的查询", MUG), (f"{D} 对应的查询", LAMP), (f"{C} 对应的查询", BLANK), (f"{C} 对应的查询", LAMP),
    ],
    "personal": [
        (f"用户: female 30 最近查询: 最近商品: 查询: red mug{RED}", A),
        (f"用户:{A}{A} female 30 最近查询: red mug 最近商品:{A} 查询: mug{MUG}", B),
        (f"用户:{A}{A} female 30 最近查询: red mug 最近商品:{A} 查询: mug{MUG}", D),
        (f"用户:{LATER}{LATER} female 30 最近查询: red mug mug mug 最近商品:{A}{B}{D} 查询: lamp{LAMP}", D),
        (f"用户: male 41 最近查询: 最近商品: 查询: mug{MUG}", A),
        (f"用户: 最近查询: 最近商品: 查询: lamp{LAMP}", D),
        (f"用户:{A}{A} male 41 最近查询: mug 最近商品:{A} 查询:{BLANK}", C),
        (f"用户:{LATER}{LATER} female 30 最近查询: mug mug lamp 最近商品:{A}{B}{D}{D} 查询: lamp{LAMP}", C),
    ],
}  # fmt: skip


def examples_of(templates, **changes):
    """Every example of every stage as (input, output) token lists."""
    plan = SearchPlan(**{"cold_users": "none", **changes})
    stages = training_stages(corpus(), read_templates(str(templates)), tokens(), plan)
    filled = {name: stage.take(np.arange(len(stage))) for name, stage in stages.items()}
    return {name: list(zip(sequences(one.inputs), sequences(one.outputs), strict=True)) for name, one in filled.items()}


@pytest.mark.parametrize(("language", "expected"), [("en", ENGLISH), ("zh", CHINESE)])
def test_every_example_of_a_shop_as_text(language, expected):
    examples = examples_of(language)
    for stage in STAGES:
        texts = [tuple(map(tokens().text, example)) for example in examples[stage]]
        assert texts == expected[stage]


def test_inputs_begin_and_end_and_outputs_end():
    for examples in examples_of("en").values():
        for inputs, outputs in examples:
            assert inputs[0] == tokens().bos
            assert inputs[-1] == outputs[-1] == tokens().eos
            assert outputs[0] != tokens().bos
            assert len(outputs) > 1


def test_both_languages_have_the_same_tasks_and_use_every_field():
    english, chinese = read_templates("en"), read_templates("zh")
    for stage in STAGES:
        assert [(task.name, task.inputs, task.outputs) for task in english[stage]] == [
            (task.name, task.inputs, task.outputs) for task in chinese[stage]
        ]
    assert set.union(*(task.fields for stage in STAGES for task in english[stage])) == set(FIELDS)


GOOD = """
[content]
tasks = [ { name = "q", input = "{query}", output = "{query_sid}" } ]
[pairs]
tasks = []
[personal]
tasks = [ { name = "search", input = "find {query}", output = "{item_sid}" } ]
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "my.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_templates_of_a_file_of_ones_own(file):
    examples = examples_of(file(GOOD))
    assert {stage: len(found) for stage, found in examples.items()} == {"content": 3, "pairs": 0, "personal": 8}
    assert tokens().text(examples["personal"][0][0]) == "find red mug"


def test_a_copy_of_a_language_gives_the_same_templates(file):
    assert read_templates(str(file((FOLDER / "zh.toml").read_text(encoding="utf-8")))) == read_templates("zh")


def changed(before, after):
    assert before in GOOD
    return GOOD.replace(before, after)


Q, SEARCH = "stage 'content', task 'q'", "stage 'personal', task 'search'"

WRONG = [
    (changed('"{query}"', '"{qeury}"'),
     f"my.toml, {Q}, input: unknown field {{qeury}}; did you mean 'query'? (known: query, query_sid, query_category, "
     "title, item_sid, category, profile, user_sid, recent_queries, history)"),
    (changed('"{query_sid}"', '"{}"'), f"my.toml, {Q}, output: unknown field {{}} (known: query, "),
    (changed('"{query}"', '"find {query"'),
     f"my.toml, {Q}, input: 'find {{query' has a brace without its partner; a field is written {{query}}"),
    (changed('"{query}"', '"{{query}}"'), f"my.toml, {Q}, input: '{{{{query}}}}' has a brace without its partner"),
    (changed('"{query}"', '"query"'), f"my.toml, {Q}, input: 'query' contains no field (known: query, "),
    (changed('"{query}"', '"{history}"'),
     f"my.toml, {Q}: a task about queries cannot contain {{history}} here (allowed: query, query_sid, query_category)"),
    (changed('"{query}"', '"{title}"'), f"my.toml, {Q}: a task about queries cannot contain {{title}} here"),
    (changed("tasks = []", 'tasks = [ { name = "p", input = "{profile}", output = "{title}" } ]'),
     "my.toml, stage 'pairs', task 'p': a task cannot contain {profile} here (allowed: query, query_sid, title, "
     "item_sid, category)"),
    (changed('"find {query}"', '"{query} {item_sid}"'),
     f"my.toml, {SEARCH}: the input cannot contain {{item_sid}} here (allowed: query, query_sid, profile, user_sid, "
     "recent_queries, history)"),
    (changed('"{item_sid}"', '"{query}"'),
     f"my.toml, {SEARCH}: the output cannot contain {{query}} here (allowed: title, item_sid, category)"),
    (changed('"{item_sid}"', '"{title}"'),
     "my.toml, stage 'personal': the first task answers queries, so there must be one, with the output {item_sid}"),
    (GOOD.replace(GOOD[GOOD.index("[personal]") :], "[personal]\ntasks = []"),
     "my.toml, stage 'personal': the first task answers queries, so there must be one"),
    (changed("[pairs]\ntasks = []", ""),
     "my.toml: stage 'pairs' is missing; a file has the stages content, pairs, personal, and an empty one is written "
     "[pairs] with tasks = []"),
    (changed("[pairs]", "[pair]"), "my.toml: unknown stage 'pair'; did you mean 'pairs'? (known: content, pairs, pers"),
    (changed("tasks = []", ""), "my.toml, stage 'pairs': a stage has tasks = [...], a list of tables with name, input"),
    (changed("tasks = []", "tasks = 3"), "my.toml, stage 'pairs': a stage has tasks = [...]"),
    (changed("tasks = []", "tasks = [1]"), "my.toml, stage 'pairs', task 1: a task is a table with name, input, outp"),
    (changed('name = "q", ', ""), "my.toml, stage 'content', task 1: no name; a task has name, input, output"),
    (changed('name = "q", input', 'name = "q", inputs'), f"my.toml, {Q}: no input; a task has name, input, output"),
    (changed('name = "q"', 'name = "q", outptu = "x"'),
     f"my.toml, {Q}: unknown key 'outptu'; did you mean 'output'? (a task has name, input, output)"),
    (changed('name = "q"', "name = 3"), "my.toml, stage 'content', task 1: name must be a string, not 3"),
    (changed("tasks = [ { name = \"q\"", "tasks = [ { name = \"q\", input = \"{query}\", output = \"{query_sid}\" },"
             " { name = \"q\""), f"my.toml, {Q}: the stage has another task of this name"),
    ("[content", "cannot read the templates"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_errors_name_the_file_the_task_and_what_is_allowed(file, text, message):
    with pytest.raises(SpecError) as caught:
        read_templates(str(file(text)))
    assert message in str(caught.value)


def test_unknown_templates_name_the_known_ones():
    with pytest.raises(SpecError, match=r"no templates 'eng'; did you mean 'en'\? \(known: en, zh, or a TOML file\)"):
        read_templates("eng")
