"""Stretching a model: what is measured, what is kept, what is chosen, what is written."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lengthwise.errors import DataError, InvalidArgument, SpecError, StorageError, UnknownName
from lengthwise.hf import dims_from_config, encoding_from_config
from lengthwise.hf.apply import apply_to
from lengthwise.hf.stretch import UNTOUCHED, Stretch, candidates, defaults, paired_gap, plan, write_model
from lengthwise.hf.stretch import Store as Folder
from lengthwise.hf.stretch import passkey as passkeys
from lengthwise.hf.stretch.candidate import split
from lengthwise.hf.stretch.export import load_written, verify, why_not
from lengthwise.hf.stretch.outcome import Answer, Losses, choose, conclude
from lengthwise.hf.stretch.passkey import hide, retrieve
from lengthwise.hf.stretch.perplexity import BLOCK, HEAD_ROWS, block_losses, check_head
from lengthwise.hf.stretch.shown import as_page, verdict
from lengthwise.hf.stretch.source import find
from lengthwise.hf.stretch.text import read_text, windows
from lengthwise.report.colours import styles
from lengthwise.report.stretch import StretchPage, against, by_depth, by_position, render_stretch

spec = importlib.util.spec_from_file_location("hf_test_tiny", Path(__file__).parent / "tiny.py")
assert spec
assert spec.loader
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)

TRAINED, TARGET = 128, 512
TEXT = "The history of the sea is long, and number 17 of its books was lost. " * 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make_folder(tmp_path_factory.mktemp("model") / "tiny", TRAINED)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return find(folder).model()


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return windows(tiny.tokenizer(), TEXT, length=TARGET, count=2)


def named(model: Any, *specs: str) -> list[Any]:
    return candidates(encoding_from_config(model.config), specs, dims_from_config(model.config))


# Losses


def test_losses_by_block_are_the_cross_entropy_of_the_whole_model(model: Any, tokens: torch.Tensor, close: Any) -> None:
    logits = model(input_ids=tokens[:1]).logits[0, :-1].double()
    every = -logits.log_softmax(-1).gather(-1, tokens[0, 1:, None])[:, 0]
    expected = torch.stack([part.mean() for part in every.split([BLOCK - 1] + [BLOCK] * (TARGET // BLOCK - 1))])
    close(block_losses(model, tokens[0]), expected.detach(), of=torch.float32, times=4)


def test_the_head_never_reads_more_than_a_few_positions_at_once(model: Any) -> None:
    rows: list[int] = []
    hook = model.lm_head.register_forward_hook(lambda _, given, __: rows.append(given[0].shape[0]))
    block_losses(model, torch.arange(1024) % 256)
    hook.remove()
    assert max(rows) <= HEAD_ROWS < sum(rows) == 1023


def test_a_head_that_does_more_than_is_known_is_refused(
    model: Any, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_head(model, tokens[0])
    monkeypatch.setattr(model.config, "final_logit_softcapping", 0.5, raising=False)
    with pytest.raises(InvalidArgument, match="head"):
        check_head(model, tokens[0])


def test_losses_take_whole_blocks_only(model: Any) -> None:
    with pytest.raises(InvalidArgument, match="multiple of 64 tokens, not 65"):
        block_losses(model, torch.zeros(65, dtype=torch.int64))


# Text


def test_windows_do_not_overlap_and_begin_as_the_tokenizer_begins_a_text() -> None:
    class Begins:
        def __call__(self, text: str, add_special_tokens: bool = True, verbose: bool = True) -> dict[str, list[int]]:
            return {"input_ids": [1] * add_special_tokens + list(map(ord, text))}

    text = "".join(map(chr, range(100, 400)))
    made = windows(Begins(), text, length=101, count=3)
    assert made[:, 0].tolist() == [1, 1, 1]
    assert len({*made[:, 1:].flatten().tolist()}) == 300


def test_a_text_too_short_says_how_many_windows_it_has() -> None:
    with pytest.raises(DataError, match=r"need 2048 tokens of text, and this one has 1100: use --windows 2, or"):
        windows(tiny.tokenizer(), "x" * 1100, length=512, count=4)


def test_without_a_file_the_language_reference_is_read() -> None:
    text, name = read_text([])
    assert len(text) > 200_000
    assert "pydoc_data" in name


# Bootstrap


def test_the_interval_holds_the_true_difference_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        shared = rng.normal(3, 1, (4, 16))  # what both find hard
        a, b = shared + 0.1 + rng.normal(0, 0.2, (4, 16)), shared + rng.normal(0, 0.2, (4, 16))
        gap = paired_gap(a, b, rng=rng, resamples=300)
        held += gap.low <= 0.1 <= gap.high
    assert 0.88 <= held / 200 <= 0.99


def test_what_both_find_hard_does_not_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(3, 1, (4, 16))
    noise = rng.normal(0, 0.01, (4, 16))
    calm, hard = (paired_gap(shared + noise + 0.1, shared, rng=np.random.default_rng(1)) for shared in (0 * a, a))
    assert hard.high - hard.low == pytest.approx(calm.high - calm.low)
    assert calm.separated
    assert calm.percent[0] == pytest.approx(100 * math.expm1(calm.mean))


def test_losses_of_different_texts_are_not_paired() -> None:
    with pytest.raises(InvalidArgument, match="one shape"):
        paired_gap(np.zeros((1, 2)), np.zeros((1, 3)), rng=np.random.default_rng(0))


# Passkeys


def test_each_number_lies_at_its_depth_and_its_question_ends_with_it(tokens: torch.Tensor) -> None:
    words = tiny.tokenizer()
    long = torch.cat(list(tokens))
    stack = hide(words, long, length=1024, keys=5, seed=3)
    text = words.decode(stack.tokens.tolist())
    assert len(stack.tokens) + max(map(len, stack.questions)) == 1024
    for depth, question, answer in zip(stack.depths, stack.questions, stack.answers, strict=True):
        asked = words.decode(question.tolist())
        number = words.decode(question[-answer:].tolist()).strip()
        assert asked.endswith(number)
        assert len(number) == passkeys.DIGITS
        name = asked.split("? The secret number of ")[1].split(" is")[0]
        assert f"The secret number of {name} is {number}." in text
        assert abs(text.index(number) / len(text) - depth) < 0.05
    assert list(stack.depths) == sorted(stack.depths)


def test_passkeys_that_would_fill_the_text_are_refused(tokens: torch.Tensor) -> None:
    with pytest.raises(DataError, match="use fewer with --keys"):
        hide(tiny.tokenizer(), tokens[0], length=256, keys=8, seed=0)


@pytest.mark.parametrize(
    "method", [None, "yarn(4)", "dynamic_ntk(2)", "self_extend(group=4, window=64)", "lm_infinite(sinks=2, local=100)"]
)
def test_one_reading_for_all_questions_answers_as_a_reading_for_each(
    model: Any, tokens: torch.Tensor, method: str | None
) -> None:
    stack = hide(tiny.tokenizer(), tokens[0], length=TARGET, keys=2, seed=0)
    chosen = named(model, method or "yarn(2)")[1 if method else 0]
    with apply_to(model, chosen.encoding, target_length=TARGET if chosen.follows_length else None):
        found = retrieve(model, stack)
        for one, question, answer in zip(found, stack.questions, stack.answers, strict=True):
            with torch.inference_mode():
                logits = model(input_ids=torch.cat((stack.tokens, question))[None], use_cache=False).logits[0]
            wanted = -logits[-answer - 1 : -1].log_softmax(-1).gather(-1, question[-answer:, None]).mean()
            assert one.loss == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_number_counts_as_found_only_if_every_token_is_the_likeliest(
    model: Any, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    stack = hide(tiny.tokenizer(), tokens[0], length=TARGET, keys=1, seed=0)
    right = torch.nn.functional.one_hot(stack.questions[0][-stack.answers[0] :], 256).float()
    right[0] = right[0].roll(wrong)
    monkeypatch.setattr(passkeys, "logits_of", lambda *_: right)
    assert retrieve(model, stack)[0].exact == (not wrong)


# Plan and methods


def test_lengths_go_from_half_the_trained_one_to_the_target() -> None:
    assert plan(8192, 16384).lengths == (4096, 8192, 12288, 16384)
    assert plan(2048, 16384).lengths == (1024, 2048, 4096, 8192, 16384)
    assert plan(1024, 2048, (512,)).ranges == ((0, 512), (512, 1024), (1024, 2048))


@pytest.mark.parametrize(
    ("trained", "target", "more", "message"),
    [
        (8192, 8192, {}, "--to 8192 is no longer"),
        (8192, 4096, {}, "for example --to 16384"),
        (1024, 2000, {}, "2000 is not: use 1984"),
        (1024, 2048, {"lengths": (4096,)}, "4096 lies past --to 2048"),
        (1024, 2048, {"windows": 0}, "--windows must be 1 to 1000, not 0"),
        (1024, 2048, {"keys": 33}, "--keys must be 0 to 32, not 33"),
        (1024, 2048, {"haystacks": 5}, "--haystacks must be 1 to 4, not 5"),
    ],
)
def test_a_plan_that_can_not_be_is_told(trained: int, target: int, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        plan(trained, target, **more)


def test_every_default_method_extends_the_model(model: Any) -> None:
    made = named(model, *defaults(2.0, TRAINED))
    assert len(made) >= 10
    assert made[0].label == UNTOUCHED
    assert len({repr(one.encoding) for one in made}) == len(made)


def test_the_default_of_self_extend_stays_within_the_trained_distances() -> None:
    for factor in (1.5, 2.0, 4.0, 8.0, 32.0):
        text = next(one for one in defaults(factor, 8192) if one.startswith("self_extend"))
        group, window = (int(part.split("=")[1].rstrip(")")) for part in text.split(","))
        assert window + (8192 * factor - window) / group <= 8192


def test_methods_are_parted_by_semicolons_and_several_in_a_row_by_plus(model: Any) -> None:
    assert split(["yarn(2); ntk(2)", " interpolate(2) ;"]) == ["yarn(2)", "ntk(2)", "interpolate(2)"]
    assert split(["longrope(short=[1, 1], long=[1, 2])"]) == ["longrope(short=[1, 1], long=[1, 2])"]
    with pytest.raises(SpecError, match="part them by ';'"):
        split(["yarn(2), ntk(2)"])
    both = named(model, "interpolate(2) + interpolate(2)")[1].encoding
    assert torch.equal(both.spectrum.inv_freq, named(model, "interpolate(4)")[1].encoding.spectrum.inv_freq)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("yarm(2)", UnknownName, "did you mean 'yarn'"),
        ("yarn(0.5)", InvalidArgument, "factor"),
        ("yarn(2", SpecError, "does not parse"),
        ("yarn(facto=2)", InvalidArgument, "did you mean 'factor'"),
        ("untouched", InvalidArgument, "name at least one method"),
    ],
)
def test_a_method_that_can_not_be_is_told(model: Any, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        named(model, text)


def test_only_what_changes_with_the_length_of_the_text_takes_a_pass_for_each(model: Any) -> None:
    made = named(model, "dynamic_ntk(2)", "dynamic_yarn()", "by_query(dynamic_yarn(), block=16)", "yarn(2)")
    assert [one.follows_length for one in made] == [False, True, True, False, False]


# The whole


def stretch(model: Any, tokens: torch.Tensor, path: Path, *specs: str, progress: Any = None, **more: Any) -> Stretch:
    settings = {"windows": 2, "keys": 2, **more}
    return Stretch(
        model,
        tiny.tokenizer(),
        "weights",
        named(model, *specs),
        tokens,
        plan(TRAINED, TARGET, **settings),
        Folder(path),
        progress or (lambda *_: None),
    )


def test_a_run_that_was_killed_goes_on_and_measures_nothing_twice(
    model: Any, tokens: torch.Tensor, tmp_path: Path
) -> None:
    specs = ("yarn(4)", "interpolate(4)")
    whole = stretch(model, tokens, tmp_path / "whole", *specs).run({})

    class Killed(BaseException):
        pass

    seen: list[str] = []

    def kill(what: str, done: float, left: float) -> None:
        if what and what not in seen:
            seen.append(what)
            if len(seen) == 4:
                raise Killed

    with pytest.raises(Killed):
        stretch(model, tokens, tmp_path / "killed", *specs, progress=kill).run({})
    assert len(list((tmp_path / "killed/measurements").iterdir())) == 3
    again: list[str] = []
    resumed = stretch(model, tokens, tmp_path / "killed", *specs, progress=lambda what, *_: again.append(what)).run({})
    assert not {*again} & {*seen[:3]}
    assert seen[3] in again
    assert resumed.rows == whole.rows
    assert resumed.answers == whole.answers
    third: list[str] = []
    stretch(model, tokens, tmp_path / "killed", *specs, progress=lambda what, *_: third.append(what)).run({})
    assert {*third} == {""}


def test_other_weights_or_another_text_are_measured_anew(model: Any, tokens: torch.Tensor, tmp_path: Path) -> None:
    def passes(**changes: Any) -> int:
        seen: set[str] = set()
        work = stretch(model, tokens, tmp_path, "yarn(4)", progress=lambda what, *_: seen.add(what), keys=0, race=False)
        for name, value in changes.items():
            setattr(work, name, value)
        work.run({})
        return len(seen - {""})

    assert passes() == 4
    assert passes() == 0
    assert passes(fingerprint="others") == 4
    assert passes(tokens=tokens.flip(0)) == 0  # the same texts in another order
    assert passes(tokens=tokens.flip(1)) == 4


def test_two_at_once_are_told_apart(tmp_path: Path) -> None:
    held, told = Folder(tmp_path).locked(), pytest.raises(StorageError, match="another process is measuring")
    with held, told, Folder(tmp_path).locked():
        pass
    with Folder(tmp_path).locked():
        pass


def test_a_measurement_that_is_no_json_is_told_with_its_file(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    store.put("loss", {"a": 1}, {"losses": []})
    (file,) = store.measurements.iterdir()
    file.write_text("{")
    with pytest.raises(StorageError, match=f"{file.name} holds no measurement"):
        store.get("loss", {"a": 1})


def test_a_method_that_follows_the_length_costs_nothing_up_to_the_trained_one(
    model: Any, tokens: torch.Tensor, tmp_path: Path
) -> None:
    seen: set[str] = set()
    work = stretch(model, tokens, tmp_path, "dynamic_ntk(2)", keys=0, progress=lambda what, *_: seen.add(what))
    found = work.run({})
    row = found.row("dynamic_ntk(2)")
    assert row.cost is not None
    assert row.cost.low == row.cost.high == 0
    # Each range past it is the end of a pass of its own length, as a user who asks for that length gets it.
    for window, length in ((0, 256), (1, 512)):
        with apply_to(model, work.candidates[1].encoding, target_length=length):
            own = block_losses(model, tokens[window, :length])
        assert work._window(work.candidates[1], window)[length // BLOCK - 1] == pytest.approx(float(own[-1]), abs=1e-5)


def test_a_method_that_is_clearly_worse_leaves_after_the_first_window(
    model: Any, tokens: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lengthwise.hf.stretch import run

    passes: list[tuple[str, int]] = []

    def losses(model: Any, candidate: Any, text: torch.Tensor, tell: Any) -> dict[str, Any]:
        passes.append((candidate.label, len(text)))
        each = {"yarn(4)": 2.0, "ntk(4)": 2.005, "interpolate(4)": 2.5}.get(candidate.label, 3.0)
        return {"losses": [each] * (len(text) // BLOCK), "seconds": 0.0}

    monkeypatch.setattr(run, "losses", losses)
    found = stretch(model, tokens, tmp_path / "a", "yarn(4)", "ntk(4)", "interpolate(4)", keys=0).run({})
    assert {row.label: row.windows for row in found.rows} == {
        "yarn(4)": 2,
        "ntk(4)": 2,
        "interpolate(4)": 1,
        UNTOUCHED: 1,
    }
    assert found.winner == "yarn(4)"
    cost = found.row("yarn(4)").cost
    assert cost is not None
    assert cost.mean == pytest.approx(-1)  # within the trained length the untouched model was measured on all
    assert found.row("interpolate(4)").perplexity[-1] == pytest.approx(math.exp(2.5))
    assert [length for label, length in passes if label == UNTOUCHED] == [TARGET, TRAINED]
    every = stretch(model, tokens, tmp_path / "b", "yarn(4)", "ntk(4)", "interpolate(4)", keys=0, race=False).run({})
    assert {row.windows for row in every.rows} == {2}


def measured(**rows: list[float]) -> Losses:
    found = Losses(plan(128, 256))
    for label, losses in rows.items():
        for window in range(4):
            found.add(label, window, [loss + 0.01 * window for loss in losses])
    return found


def test_a_method_with_fewer_windows_is_compared_on_those_that_it_has() -> None:
    found = measured(untouched=[1, 1, 3, 3], a=[1, 1, 2, 2])
    found.add("b", 3, [1.03, 1.03, 2.13, 2.13])  # the hardest window only
    assert found.perplexity("b", (128, 256)) == pytest.approx(found.perplexity("a", (128, 256)) * math.exp(0.1))
    assert found.order() == ["a", "b", "untouched"]


def test_of_methods_that_the_text_does_not_part_the_one_that_retrieves_more_wins() -> None:
    found = measured(untouched=[1, 1, 3, 3], a=[1, 1, 2, 2], b=[1, 1, 2, 2])
    for window in range(4):
        found.rows["b"][window] = found.rows["b"][window] + np.array([0, 0, 0.01, -0.009])
    found.answers = {label: [Answer(256, 0.5, exact, 1.0)] for label, exact in (("a", False), ("b", True))}
    assert found.order()[0] == "a"
    assert choose(found, found.order()[:2]) == "b"
    for window in range(4):
        found.rows["b"][window] = found.rows["b"][window] + 0.5
    assert choose(found, found.order()[:2]) == "a"


def test_the_best_that_a_config_can_say_is_written_where_it_can_not_say_the_winner() -> None:
    found = measured(untouched=[1, 1, 3, 3], a=[1, 1, 2, 2], b=[1, 1, 2.5, 2.5])
    outcome = conclude(found, {"a": "whole logits", "b": "", "untouched": ""}, {})
    assert (outcome.winner, outcome.written) == ("a", "b")
    assert outcome.row("a").why_not == "whole logits"
    assert json.loads(json.dumps(outcome.as_dict()))["written"] == "b"
    assert outcome.untouched_is_better is None
    assert conclude(found, {"a": "x", "b": "y", "untouched": ""}, {}).written is None


def test_where_the_untouched_model_is_the_best_the_verdict_says_so() -> None:
    outcome = conclude(measured(untouched=[1, 1, 2, 2], a=[1, 1, 3, 3]), {"a": "", "untouched": ""}, {})
    assert outcome.winner == "a"
    assert outcome.untouched_is_better == pytest.approx(100 * (1 - math.exp(-1)))
    assert "the untouched model is better by 63.21 %" in verdict(outcome)


# What is written


@pytest.mark.parametrize("method", ["yarn(4)", "interpolate(4)", "ntk(4)", "llama3(4)", "dynamic_ntk(2)"])
def test_the_written_model_is_plain_and_gives_the_same_losses(
    folder: Path, model: Any, tokens: torch.Tensor, tmp_path: Path, method: str, close: Any
) -> None:
    chosen = named(model, method)[1]
    source = find(folder)
    out = write_model(source, model.config, chosen, TARGET, tmp_path / "out")
    assert "lengthwise" not in (out / "config.json").read_text()
    assert (out / "model.safetensors").samefile(folder / "model.safetensors")
    plain = AutoModelForCausalLM.from_pretrained(out).eval()
    with apply_to(model, chosen.encoding, target_length=TARGET if chosen.follows_length else None):
        measured = block_losses(model, tokens[0])
    close(block_losses(plain, tokens[0]), measured, of=torch.float32, times=64)
    assert not torch.allclose(block_losses(model, tokens[0]), measured, atol=1e-2)
    longest = AutoConfig.from_pretrained(out).max_position_embeddings
    assert longest == (TRAINED if chosen.follows_length else TARGET)
    assert verify(source, out, model, chosen, tokens[0]) < 1e-3


def test_a_written_model_that_is_not_what_was_measured_is_told(
    folder: Path, model: Any, tokens: torch.Tensor, tmp_path: Path
) -> None:
    yarn, ntk = named(model, "yarn(4)", "ntk(4)")[1:]
    out = write_model(find(folder), model.config, yarn, TARGET, tmp_path / "out")
    with pytest.raises(InvalidArgument, match="differs from the measured one"):
        verify(find(folder), out, model, ntk, tokens[0])


def test_a_method_that_no_config_can_say_has_a_reason(model: Any) -> None:
    extended = named(model, "self_extend(group=4, window=64)", "yarn(2)")
    assert why_not(extended[1].encoding, model.config)
    assert why_not(extended[2].encoding, model.config) == ""


def test_a_written_folder_is_written_again_and_never_over_the_model(folder: Path, model: Any, tmp_path: Path) -> None:
    chosen = named(model, "yarn(4)")[1]
    for _ in range(2):
        write_model(find(folder), model.config, chosen, TARGET, tmp_path / "out")
    assert load_written(find(folder), tmp_path / "out").config.rope_parameters["factor"] == 4
    with pytest.raises(StorageError, match="the model's own folder"):
        write_model(find(folder), model.config, chosen, TARGET, folder)


# The page


@pytest.fixture
def page() -> StretchPage:
    found = measured(untouched=[1, 1, 3, 3], **{"a('</script>')": [1, 1, 2, 2], "b": [1.1, 1.1, 2.5, 2.5]})
    found.answers = {"b": [Answer(256, 0.25, True, 0.1), Answer(256, 0.75, False, 2.0)]}
    outcome = conclude(found, {"a('</script>')": "whole logits", "b": "", "untouched": ""}, {"text": "a <text>"})
    return as_page(outcome, name="model", use="load()", command="lengthwise stretch 'a & b'")


def test_the_page_shows_cost_beside_gain_and_nothing_breaks_out_of_it(page: StretchPage) -> None:
    source = render_stretch(page)
    assert source.count("</script>") == 3  # its own
    assert {"cost", "behind"} <= {*page.head}
    assert "against the untouched model up to 128 tokens" in source
    assert "a &lt;text&gt;" in source
    assert [row[0] for row in page.rows] == ["a('</script>')", "b", "untouched"]
    cost = page.head.index("cost")
    assert page.rows[1][cost].startswith("+11 %")  # e^0.1
    assert page.rows[0][cost] == "0 %"
    assert (0, 1) in page.best


def test_the_figures_keep_to_the_schema_and_hold_what_was_measured(page: StretchPage) -> None:
    look = styles(line.label for line in page.lines)
    for chart in (
        against(page.lines, page.chosen, page.trained, look),
        by_position(page.lines, page.trained, look),
        by_depth(page.retrievals[0], page.trained),
    ):
        chart.to_dict(validate=True)
    rows = against(page.lines, page.chosen, page.trained, look).to_dict(validate=False)["datasets"]["rows"]
    far = [row["value"] for row in rows if row["encoding"] == "b" and row["position"] > 128]
    assert far == pytest.approx([100 * math.expm1(0.5)] * len(far))
    cells = by_depth(page.retrievals[0], page.trained).to_dict(validate=False)["datasets"]["rows"]
    assert sorted((cell["length"], cell["found"]) for cell in cells) == [(256, 0.0), (256, 1.0)]
