"""What all methods have in common that change the frequencies of a rotation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.extension import Method
from lengthwise.models import Decoder, ModelConfig

IDENTITIES = [
    lw.Interpolate(1),
    lw.NTK(1),
    lw.NTK(1, variant="su"),
    lw.NTKByParts(1, 64),
    lw.YaRN(1, 64),
    lw.YaRN(1.0, 64, ramp="rotations", truncate=False),
    lw.YaRN(1, 64, mscale=1.0, mscale_all_dim=0.5),
    lw.Llama3(1, 64),
    lw.LongRoPE(1.0, 1.0, 64, factor=1),
    lw.LongRoPE([1.0] * 8, (1,) * 8, 64, attention_factor=1),
    lw.Proportional(1),
]
STATIC = [
    lw.Interpolate(4),
    lw.NTK(4),
    lw.NTK(4, variant="su"),
    lw.NTKByParts(4, 64),
    lw.YaRN(4, 64),
    lw.YaRN(4, 64, ramp="rotations"),
    lw.Llama3(4, 64),
]
DYNAMIC = [
    lw.DynamicNTK(1, 32),
    lw.DynamicNTK(3, 32),
    lw.DynamicYaRN(32),
    lw.DynamicYaRN(32, ramp="rotations"),
    lw.LongRoPE(1.0, [1.0, 1.1, 1.5, 2.0, 2.0, 3.0, 4.0, 4.0], 32, factor=4),
]
Q = torch.randn(1, 4, 40, 16, generator=torch.Generator().manual_seed(0))
K = torch.randn(1, 2, 40, 16, generator=torch.Generator().manual_seed(1))


def weights(encoding: nn.Module, positions: lw.Positions | None = None) -> Tensor:
    return lw.attention_weights(Q, K, encoding, positions)


@pytest.mark.parametrize("method", IDENTITIES, ids=repr)
def test_factor_one_changes_no_bit(method: Method) -> None:
    x = torch.randn(2, 40, 16, generator=torch.Generator().manual_seed(2))
    at = lw.Positions.sequence(40)
    for plain in (lw.Rotary(16), lw.Rotary(16, layout="interleaved"), lw.MRoPE(16)):
        same = lw.extend(plain, method)
        assert torch.equal(weights(same), weights(plain))
        assert torch.equal(lw.attention(Q, K, K, same), lw.attention(Q, K, K, plain))
        assert lw.claims(same) == lw.claims(plain)
        assert same.cached_keys == "rotated"
    for variant in ("interleaved", "half", "tensor2tensor"):
        added = lw.Sinusoidal(16, variant=variant)
        assert torch.equal(lw.extend(added, method).embed_positions(x, at), added.embed_positions(x, at))


@pytest.mark.parametrize("method", DYNAMIC, ids=repr)
def test_up_to_the_trained_length_a_dynamic_method_changes_no_bit_of_the_frequencies(method: Method) -> None:
    plain, longer = lw.Rotary(16), lw.extend(lw.Rotary(16), method)
    for length in (1, 31, 32):
        assert torch.equal(longer.spectrum_at(length).inv_freq, plain.spectrum.inv_freq)
    assert not torch.equal(longer.spectrum_at(33).inv_freq, plain.spectrum.inv_freq)
    if not isinstance(method, lw.LongRoPE):
        short = Q[:, :, :32], K[:, :, :32]
        assert torch.equal(lw.attention_weights(*short, longer), lw.attention_weights(*short, plain))
        assert not torch.equal(weights(longer), weights(plain))


@pytest.mark.parametrize("method", STATIC, ids=repr)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_no_frequency_rises_and_none_falls_below_its_share(method: Method, fraction: float) -> None:
    before = lw.Rotary(64, fraction=fraction).spectrum.inv_freq
    after = lw.extend(lw.Rotary(64, fraction=fraction), method).spectrum.inv_freq
    tiny = 1e-12
    assert (after <= before * (1 + tiny)).all()
    assert (after >= before / 4 * (1 - tiny)).all()
    torch.testing.assert_close(after[-1], before[-1] / 4, rtol=1e-12, atol=0)
    assert (after[1:] <= after[:-1]).all()


@pytest.mark.parametrize(
    "method", [lw.NTK(4), lw.NTKByParts(4, 2048), lw.YaRN(4, 2048), lw.Llama3(4, 2048), lw.DynamicNTK(4, 20)], ids=repr
)
def test_the_highest_frequency_stays_bit_for_bit(method: Method) -> None:
    assert lw.extend(lw.Rotary(64), method).spectrum_at(400).inv_freq[0] == 1.0


def test_two_plain_factors_are_one_with_their_product(close) -> None:
    for one, both in (
        (lw.NTK(2), lw.NTK(4)),
        (lw.NTK(2, variant="su"), lw.NTK(4, variant="su")),
        (lw.Interpolate(2), lw.Interpolate(4)),
    ):
        twice = lw.extend(lw.extend(lw.Rotary(64), one), one).spectrum
        once = lw.extend(lw.Rotary(64), both).spectrum
        close(twice.inv_freq / once.inv_freq, torch.ones(32, dtype=torch.float64))
        assert twice.base == pytest.approx(once.base, rel=1e-12)


SECOND = [*STATIC[3:], *DYNAMIC, lw.Proportional(0.5)]


@pytest.mark.parametrize("first", SECOND, ids=lambda one: type(one).__name__)
def test_a_second_method_of_frequencies_is_refused_behind_one_that_is_no_plain_factor(first: Method) -> None:
    changed = lw.extend(lw.Rotary(16), first)
    for second in (*SECOND, lw.NTK(2), lw.Interpolate(2), lw.ChangeBase(1e6)):
        with pytest.raises(lw.InvalidArgument, match=f"were changed by {type(first).__name__}, and two methods in a r"):
            lw.extend(changed, second)


@pytest.mark.parametrize("second", SECOND, ids=lambda one: type(one).__name__)
def test_a_plain_factor_does_not_go_before_another_kind_and_a_new_base_does(second: Method) -> None:
    with pytest.raises(lw.InvalidArgument, match="were changed by NTK"):
        lw.extend(lw.extend(lw.Rotary(16), lw.NTK(2)), second)
    rebased = lw.extend(lw.extend(lw.Rotary(16), lw.ChangeBase(500000)), second)
    direct = lw.extend(lw.Rotary(16, base=500000), second)
    for length in (20, 50):
        assert torch.equal(rebased.spectrum_at(length).inv_freq, direct.spectrum_at(length).inv_freq)
    assert torch.equal(weights(rebased), weights(direct))


def test_a_changed_base_is_the_encoding_of_that_base_whatever_it_was() -> None:
    rebased = lw.extend(lw.extend(lw.Rotary(16), lw.ChangeBase(100)), lw.ChangeBase(500000))
    assert torch.equal(weights(rebased), weights(lw.Rotary(16, base=500000)))
    assert rebased.spectrum.base == 500000.0
    assert lw.claims(rebased) == lw.claims(lw.Rotary(16))


@pytest.mark.parametrize("method", DYNAMIC, ids=repr)
def test_what_was_called_before_changes_nothing(method: Method) -> None:
    # transformers keeps the frequencies of the longest call: 1000, 8192, 4096 give another sum than 4096 alone.
    longer = lw.extend(lw.Rotary(16), method)
    fresh = {length: lw.extend(lw.Rotary(16), method).spectrum_at(length).inv_freq for length in (10, 33, 64, 128)}
    at = lw.Positions.sequence(40)
    expected = {length: weights(lw.extend(lw.Rotary(16), method), at.with_target(length)) for length in fresh}
    for length in (10, 128, 64, 33, 10, 64):
        assert torch.equal(longer.spectrum_at(length).inv_freq, fresh[length])
        assert torch.equal(weights(longer, at.with_target(length)), expected[length])


@pytest.mark.parametrize("method", DYNAMIC, ids=repr)
def test_the_length_is_the_stated_one_or_else_the_largest_position_plus_one(method: Method) -> None:
    longer = lw.extend(lw.Rotary(16), method)
    at = lw.Positions.sequence(40)
    stated = weights(longer, at.with_target(40))
    assert torch.equal(weights(longer, at), stated)
    assert torch.equal(weights(longer, at.replace(q=at.q, k=at.k)), stated)
    changed = at.with_target(20)
    assert not torch.equal(weights(longer, changed), stated)
    exact = longer.spectrum_at(40).inv_freq
    assert torch.equal(longer.spectrum_at(torch.tensor(40.0, dtype=torch.float64)).inv_freq, exact)


@pytest.mark.parametrize("method", DYNAMIC, ids=repr)
def test_keys_in_a_cache_across_the_border_give_one_pass_where_the_length_is_stated(method: Method, close) -> None:
    longer = lw.extend(lw.Rotary(16), method)
    assert longer.cached_keys == "rotated_at_target_length"
    v = torch.randn(1, 2, 40, 16, generator=torch.Generator().manual_seed(3))
    whole = lw.attention(Q, K, v, longer, lw.Positions.sequence(40).with_target(40))
    cached = torch.empty(1, 2, 0, 16)
    for start in range(0, 40, 8):  # the trained length, 32, is in between
        now = lw.Positions.step(start, 8).with_target(40)
        rows = slice(start, start + 8)
        turn = longer.rotation(now.new())
        cached = torch.cat((cached, turn.k(K[:, :, rows])), dim=2)
        out = lw.attend(turn.q(Q[:, :, rows]), cached, v[:, :, : start + 8], positions=now)
        close(out, whole[:, :, rows])


def test_keys_turned_for_two_lengths_are_another_attention() -> None:
    longer = lw.extend(lw.Rotary(16), lw.DynamicNTK(2, 32))
    at = lw.Positions.sequence(40)
    mixed = torch.cat((longer.rotation(at.with_target(32)).k(K)[:, :, :32], longer.rotation(at).k(K)[:, :, 32:]), 2)
    right = lw.attention(Q, K, K, longer, at)
    wrong = lw.attend(longer.rotation(at).q(Q), mixed, K, positions=at)
    assert (right - wrong).abs().max() > 0.01


@pytest.mark.parametrize("method", [DYNAMIC[1], DYNAMIC[2], DYNAMIC[4]], ids=repr)
def test_a_model_decodes_with_a_cache_what_it_says_in_one_pass(method: Method) -> None:
    torch.manual_seed(0)
    config = ModelConfig(vocabulary=11, dim=64, heads=4)
    model = Decoder(config, lw.extend(lw.Rotary(16), method)).eval()
    prompt = torch.randint(11, (2, 28), generator=torch.Generator().manual_seed(0))
    said = model.generate(prompt, 10)
    with torch.no_grad():
        again = model(said, lw.Positions.sequence(38).with_target(38)).argmax(-1)
    assert torch.equal(said[:, 28:], again[:, 27:-1])


@pytest.mark.parametrize("method", [*STATIC, *DYNAMIC], ids=repr)
def test_text_of_mrope_stays_that_of_rotary(method: Method) -> None:
    assert torch.equal(weights(lw.extend(lw.MRoPE(16), method)), weights(lw.extend(lw.Rotary(16), method)))


def test_a_factor_on_logits_is_no_longer_norm_preserving_and_is_squared(close) -> None:
    yarn = lw.YaRN(4, 64)
    for plain in (lw.Rotary(16), lw.MRoPE(16)):
        longer = lw.extend(plain, yarn)
        assert "norm_preserving" not in lw.claims(longer)
        turn = longer.rotation(lw.Positions.sequence(40))
        close(turn.q(Q).norm(dim=-1), Q.norm(dim=-1) * yarn.rotation_multiplier)
        assert "norm_preserving" in lw.claims(lw.extend(plain, lw.YaRN(4, 64, attention_factor=1.0)))
    partial = lw.extend(lw.Rotary(16, fraction=0.5), yarn).rotation(lw.Positions.sequence(40))
    assert torch.equal(partial.q(Q)[..., 8:], Q[..., 8:])


SINES = [
    lw.Interpolate(4),
    lw.NTK(4),
    lw.Llama3(4, 64),
    lw.DynamicNTK(2, 32),
    lw.DynamicYaRN(32, attention_factor=1.0),
    lw.ChangeBase(500.0),
    lw.YaRN(4, 64, attention_factor=1.0),
]


@pytest.mark.parametrize("method", SINES, ids=repr)
@pytest.mark.parametrize("variant", ["interleaved", "half", "tensor2tensor"])
def test_sinusoids_take_the_frequencies(method: Method, variant: str, close) -> None:
    plain = lw.Sinusoidal(16, variant=variant)
    longer = lw.extend(plain, method)
    x = torch.zeros(1, 40, 16)
    sines = longer.embed_positions(x, lw.Positions.sequence(40))[0]
    angles = torch.arange(40.0, dtype=torch.float64)[:, None] * longer.spectrum_at(40).inv_freq
    first, second = (sines[:, 0::2], sines[:, 1::2]) if variant == "interleaved" else sines.chunk(2, dim=-1)
    close(first, angles.sin())
    close(second, angles.cos())
    assert not torch.equal(sines, plain.embed_positions(x, lw.Positions.sequence(40))[0])


def test_the_lowest_frequency_of_every_kind_of_sinusoids_is_divided_by_the_factor(close) -> None:
    for variant in ("interleaved", "half", "tensor2tensor"):
        plain = lw.Sinusoidal(16, variant=variant)
        ratio = lw.extend(plain, lw.NTK(4)).spectrum.inv_freq / plain.spectrum.inv_freq
        close(ratio[[0, -1]], torch.tensor([1.0, 0.25], dtype=torch.float64))
        spectrum = plain.spectrum
        close(spectrum.base ** -(torch.arange(8, dtype=torch.float64) / 8), spectrum.inv_freq)


@pytest.mark.parametrize("method", [lw.YaRN(4, 64), lw.DynamicYaRN(64), lw.LongRoPE(1.0, 4.0, 64, factor=4)], ids=repr)
def test_sinusoids_refuse_a_factor_of_cosines_and_sines(method: Method) -> None:
    with pytest.raises(lw.InvalidArgument, match="give it attention_factor=1"):
        lw.extend(lw.Sinusoidal(16), method)
    scaled = lw.Sinusoidal(16).spectrum.replace(attention_factor=1.1)
    with pytest.raises(lw.InvalidArgument, match=r"attention_factor 1, not 1\.1"):
        lw.Sinusoidal(16).with_spectrum(scaled)
    both = lw.extend(lw.Combined(lw.Sinusoidal(64), lw.Rotary(16)), method)  # it extends what it can
    assert isinstance(both.parts[0], lw.Sinusoidal)


def test_spectra_of_another_width_are_refused() -> None:
    for encoding in (lw.MRoPE(16), lw.Sinusoidal(16), lw.Rotary(16)):
        with pytest.raises(lw.InvalidArgument, match="a spectrum of 8 dims does not fit"):
            encoding.with_spectrum(lw.Rotary(8).spectrum)


BAD = [
    *((kind, {"factor": 0.5}, "factor is .* at least 1, and is 0.5") for kind in (lw.NTK, lw.Interpolate)),
    *(
        (kind, {"factor": 0.5, "original_length": 64}, "factor is .* at least 1, and is 0.5")
        for kind in (lw.YaRN, lw.DynamicNTK, lw.NTKByParts, lw.Llama3)
    ),
    (lw.NTK, {"factor": float("nan")}, "factor is"),
    (lw.NTK, {"factor": float("inf")}, "factor is"),
    (lw.NTK, {"factor": 2, "variant": "sue"}, "unknown variant 'sue'.*su"),
    (lw.Proportional, {"fraction": 0.5, "factor": 0.5}, "factor is"),
    (lw.Proportional, {"fraction": 1.5}, "fraction is .* not 1.5"),
    (lw.ChangeBase, {"base": 0}, "base must be a number above 0, not 0"),
    (lw.YaRN, {"factor": 2, "original_length": 0}, "original_length is"),
    (lw.YaRN, {"factor": 2, "original_length": 64, "beta_fast": 1, "beta_slow": 32}, "0 < beta_slow < beta_fast"),
    (lw.YaRN, {"factor": 2, "original_length": 64, "beta_slow": 0}, "0 < beta_slow < beta_fast"),
    (lw.YaRN, {"factor": 2, "original_length": 64, "ramp": "rotation"}, "unknown ramp 'rotation'.*rotations"),
    (lw.YaRN, {"factor": 2, "original_length": 64, "attention_factor": 0}, "attention_factor must be a number above"),
    (lw.YaRN, {"factor": 2, "original_length": 64, "mscale": -1}, "mscale must be a number of at least 0"),
    (lw.DynamicYaRN, {"original_length": 64, "beta_fast": 0.5}, "0 < beta_slow < beta_fast"),
    (lw.NTKByParts, {"factor": 2, "original_length": 64, "slow": 32.0}, "0 < slow < fast"),
    (lw.Llama3, {"factor": 2, "original_length": 64, "low_freq_factor": 4.0}, "0 < low_freq_factor < high_freq_factor"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), BAD)
def test_settings_that_make_no_sense_are_refused(kind: type[Method], settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        kind(**settings)


def test_a_compiler_makes_two_graphs_over_five_lengths() -> None:
    script = Path(__file__).with_name("compiled.py")
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(script.parents[2] / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 2
