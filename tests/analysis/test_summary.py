"""What is looked at in a model agrees with its parts, and who resembles whom is paired by seed."""

from __future__ import annotations

import pytest
import torch

import lengthwise as lw
from lengthwise.analysis import summary
from lengthwise.analysis.constructions import absolute_position
from lengthwise.analysis.reach import attended_distance, histogram, mean_distance
from lengthwise.analysis.record import record
from lengthwise.analysis.similarity import attention_distance
from lengthwise.analysis.summary import Looks, look
from lengthwise.analysis.summary_pairs import pairs, resemblance
from lengthwise.models import Decoder, ModelConfig

CONFIG = ModelConfig(vocabulary=20, dim=16, heads=2, layers=2)
TOKENS = torch.randint(1, 20, (8, 10), generator=torch.Generator().manual_seed(0))
TOKENS[:, 0] = 0


def model(spec: str, seed: int = 0, config: ModelConfig = CONFIG) -> Decoder:
    torch.manual_seed(seed)
    return Decoder(config, lw.build(spec, config.dims()))


@pytest.fixture(scope="module")
def construction() -> Looks:
    return look(absolute_position(10, vocabulary=20), TOKENS)


def test_histograms_and_distances_of_parts_are_those_of_all_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    one = model("none")
    whole = look(one, TOKENS, probed=False)
    weights = record(one, TOKENS).weights
    assert len(whole.attended[1]) == 10
    for layer, found in enumerate(attended_distance(weights)):
        assert whole.attended[layer] == pytest.approx(histogram(found).tolist())
    assert whole.mean_distance == [pytest.approx(heads) for heads in mean_distance(weights).tolist()]
    monkeypatch.setattr(summary, "LARGEST", 3 * 2 * 2 * 10 * 10)  # three examples at a time, the last part shorter
    parts = look(one, TOKENS, probed=False)
    assert parts.attended == [pytest.approx(layer) for layer in whole.attended]
    assert parts.mean_distance == [pytest.approx(heads, rel=1e-5) for heads in whole.mean_distance]
    assert parts.order == pytest.approx(whole.order, rel=1e-5)


def test_probes_read_the_position_that_a_construction_writes_and_not_before(construction: Looks) -> None:
    def r2(layer: int, asked: str, kind: str = "linear", shuffled: bool = False) -> float:
        wanted = (asked, kind, layer, shuffled)
        (found,) = [one for one in construction.probes if (one.asked, one.kind, one.layer, one.shuffled) == wanted]
        return found.r2

    assert len(construction.probes) == 2 * 2 * 2 * 2
    assert r2(1, "position") > 0.97
    assert r2(1, "distance") > 0.97
    assert r2(0, "distance") < 0.5
    assert r2(1, "position", "mlp") > 0.9
    assert r2(1, "position", shuffled=True) < 0.3


def test_one_token_behind_a_mark_differs_by_place_where_positions_are_written(construction: Looks) -> None:
    assert construction.places[0] == pytest.approx(1.0)
    assert construction.places[1] < 0.99
    assert construction.order[0] == pytest.approx(1.0)
    assert construction.order[1] < 0.99
    assert construction.largest > 0.1


def test_a_text_without_a_mark_is_begun_with_another_token_than_the_repeated_one() -> None:
    text = torch.full((4, 6), 5)
    without = look(model("none"), text, probed=False)
    assert min(without.places) == pytest.approx(1.0)  # nothing tells one place from another
    text[3, 0] = 7
    assert look(model("none"), text, probed=False).places[-1] < 0.9999


def test_the_first_token_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []

    def effect(model: Decoder, tokens: torch.Tensor, order: torch.Tensor) -> object:
        seen.append(order)
        return real(model, tokens, order)

    real = summary.order_effect
    monkeypatch.setattr(summary, "order_effect", effect)
    look(model("rotary"), TOKENS, probed=False)
    assert seen[0][0] == 0
    assert sorted(seen[0].tolist()) == list(range(10))
    assert seen[0].tolist() != list(range(10))


@pytest.mark.parametrize("tokens", [TOKENS[:3], TOKENS[:, :2]], ids=["few examples", "few tokens"])
def test_too_little_to_look_at_is_refused(tokens: torch.Tensor) -> None:
    with pytest.raises(lw.InvalidArgument, match="at least 4 examples of at least 3 tokens"):
        look(model("none"), tokens)


def test_two_encodings_are_paired_by_seed_and_one_with_its_next_seed() -> None:
    models = {(name, seed): model(name, seed) for name, seed in (("none", 0), ("none", 1), ("none", 3), ("alibi", 1))}
    assert pairs(models) == {("none", "none"): [(0, 1), (1, 3), (3, 0)], ("alibi", "none"): [(1, 1)]}
    two = {key: models[key] for key in (("none", 0), ("none", 1))}
    assert pairs(two) == {("none", "none"): [(0, 1)]}


def test_distances_are_those_of_the_models_and_do_not_depend_on_how_examples_are_parted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = {("none", 0): model("none"), ("none", 1): model("none", 1), ("alibi", 0): model("alibi")}
    found = {(pair.first, pair.second): pair for pair in resemblance(models, TOKENS)}
    weights = [record(models[key], TOKENS).weights for key in (("alibi", 0), ("none", 0))]
    expected = attention_distance(*weights).mean().item()
    assert found["alibi", "none"].distances == (pytest.approx(expected),)
    assert found["none", "none"].control
    assert found["none", "none"].seeds == ((0, 1),)
    monkeypatch.setattr(summary, "LARGEST", 1)
    for pair in resemblance(models, TOKENS):
        assert pair.distances == pytest.approx(found[pair.first, pair.second].distances)


def test_a_model_resembles_itself_wholly() -> None:
    same = {("a", 0): model("none"), ("b", 0): model("none")}
    (pair,) = resemblance(same, TOKENS)
    assert pair.distances == (pytest.approx(0.0, abs=1e-9),)


def test_one_model_alone_resembles_nobody() -> None:
    with pytest.raises(lw.InvalidArgument, match="two encodings of one seed"):
        resemblance({("none", 0): model("none")}, TOKENS)
