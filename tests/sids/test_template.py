import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidkit
from sidkit.sids.template import TEMPLATES, Template, read_sid, template_named

SID = (12, 3, 77)


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_templates_read_back_what_they_write(name):
    form = TEMPLATES[name]
    assert form.parse(form.write(SID)) == SID
    for depth in (1, 2, 3):
        assert form.parse(form.write_prefix(SID[:depth])) == SID[:depth]
    assert form.write_prefix(SID, 3) == form.write(SID)
    assert form.write_prefix(SID[:2], 3) == form.write_prefix(SID[:2])


@pytest.mark.parametrize("own", [None, *TEMPLATES.values(), Template("[{level}:{code}]")])
@pytest.mark.parametrize(
    "text",
    [
        "<a_12><b_3><c_77>",
        "  <a_12><b_3><c_77>\n",
        "<|sid_begin|><s_a_12><s_b_3><s_c_77><|sid_end|>",
        "<s_a_12><s_b_3><s_c_77>",
        "12-3-77",
        "12,3,77",
        "12, 3, 77",
        "12 3 77",
        "[12, 3, 77]",
        "[12  3 77]",
        "(12, 3, 77)",
    ],
)
def test_every_form_is_read_whatever_the_own_one_is(text, own):
    assert read_sid(text, own) == SID


@pytest.mark.parametrize(
    ("text", "codes"),
    [("<a_12>", (12,)), ("<|sid_begin|><s_a_12>", (12,)), ("12", (12,)), ("12-3", (12, 3)), ("[12, 3]", (12, 3))],
)
def test_prefixes_are_read_in_every_form(text, codes):
    assert read_sid(text) == codes


def test_the_own_form_goes_before_the_others():
    form = Template("{code}-{level}")
    assert form.write((12, 3)) == "12-13-2"
    assert read_sid("12-13-2", form) == (12, 3)
    assert read_sid("12-13-2") == (12, 13, 2)
    assert read_sid("12-13", form) == (12, 13)  # not its form, so plain numbers


def test_blanks_at_the_ends_of_a_form_may_be_lost_in_copying():
    form = Template("{letter}{code} ")
    assert form.write((12, 3)) == "a12 b3 "
    assert read_sid("a12 b3", form) == read_sid("a12 b3 ", form) == (12, 3)


@pytest.mark.parametrize("bad", ["<a_1", "<b_1>", "<a_1><a_2>", "hello", "<a_x>", "12-", "1-a", "<a_1>2", "9" * 5000])
def test_text_that_is_no_sid_is_refused_with_an_example(bad):
    with pytest.raises(sidkit.SidkitError, match="expected the form <a_12><b_3><c_77>"):
        TEMPLATES["letters"].parse(bad)


def test_a_refusal_shows_the_own_form_first():
    with pytest.raises(sidkit.SidkitError) as error:
        read_sid("hello", Template("[{level}:{code}]"))
    assert str(error.value).endswith("expected the form [1:12][2:3][3:77] or <a_12><b_3><c_77> or 12-3-77")
    with pytest.raises(sidkit.SidkitError, match=r"expected the form <a_12><b_3><c_77> or 12-3-77$"):
        read_sid("hello")


@pytest.mark.parametrize("bad", ["<{code}{code}>", "<{name}_{code}>", "<a>", "{code.__class__}"])
def test_templates_that_cannot_work_are_refused(bad):
    with pytest.raises(sidkit.SidkitError, match="must hold"):
        Template(bad)


@pytest.mark.parametrize(
    ("bad", "written"), [("{code}", "12377"), ("{level}{code}", "11223377"), ("{code}0", "12030770")]
)
def test_templates_that_run_codes_together_are_refused(bad, written):
    with pytest.raises(sidkit.SidkitError, match=f"runs codes together: 12, 3, 77 becomes {written};"):
        template_named(bad)


PART = st.text("ab<>-_., 01", max_size=3)


@given(
    st.tuples(PART, st.sampled_from(["", "{letter}", "{level}"]), PART, PART),
    st.tuples(PART, PART, PART),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=30),
)
def test_what_any_template_writes_it_reads(token, around, codes):
    before, name, middle, after = token
    try:
        form = Template(before + name + middle + "{code}" + after, *around)
    except sidkit.SidkitError as error:
        assert "runs codes together" in str(error)  # noqa: PT017
        return
    assert read_sid(form.write(codes), form) == tuple(codes)
