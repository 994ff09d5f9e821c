from __future__ import annotations

import math

import pytest
import torch
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextSinusoidalPositionalEmbedding

import lengthwise as lw
from lengthwise import Positions, Sinusoidal

# Position 2, dim 8: the formula sheet's numbers.
SHEET = {
    "interleaved": ".909297427 -.416146837 .198669331 .980066578 .0199986667 .999800007 .00199999867 .999998",
    "half": ".909297427 .198669331 .0199986667 .00199999867 -.416146837 .980066578 .999800007 .999998",
    "tensor2tensor": ".909297427 .0926985008 .00430885605 .000199999999 -.416146837 .995694224 .999990717 .99999998",
}


@pytest.mark.parametrize("variant", SHEET)
def test_position_two_has_the_numbers_of_the_formula_sheet(variant: str) -> None:
    row = Sinusoidal(8, variant=variant).table(torch.tensor([2]))[0]
    torch.testing.assert_close(row, torch.tensor([float(x) for x in SHEET[variant].split()]), rtol=1e-6, atol=1e-8)


def test_half_is_the_table_of_marian() -> None:
    theirs = MarianSinusoidalPositionalEmbedding(512, 64).create_weight()
    torch.testing.assert_close(Sinusoidal(64, variant="half").table(torch.arange(512)), theirs.detach())


def test_tensor2tensor_is_the_table_of_fairseq_ports() -> None:
    theirs = Speech2TextSinusoidalPositionalEmbedding.get_embedding(512, 64)
    # Their frequencies are float32, off by a rounding that grows with the position.
    torch.testing.assert_close(
        Sinusoidal(64, variant="tensor2tensor").table(torch.arange(512)), theirs, rtol=0, atol=512 * 2e-7
    )


@pytest.mark.parametrize("variant", SHEET)
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_it_equals_the_formula_in_float64_far_out(variant: str, base: float) -> None:
    place = [0, 1, 17, 4095, 2**20 - 1, 2**20]
    table = Sinusoidal(6, base, variant).table(torch.tensor(place))
    for p, row in zip(place, table.tolist(), strict=True):
        for m in range(3):
            angle = p * base ** -(m / 2 if variant == "tensor2tensor" else m / 3)
            sine, cosine = (2 * m, 2 * m + 1) if variant == "interleaved" else (m, 3 + m)
            assert row[sine] == pytest.approx(math.sin(angle), abs=2e-7)
            assert row[cosine] == pytest.approx(math.cos(angle), abs=2e-7)


@pytest.mark.parametrize("variant", SHEET)
def test_the_product_of_two_rows_depends_on_their_distance_alone(variant: str) -> None:
    table = Sinusoidal(32, variant=variant).table(torch.arange(100)).double()
    product = table @ table.T
    for distance in (0, 1, 30):
        diagonal = product.diagonal(distance)
        assert diagonal.max() - diagonal.min() < 1e-5
    assert product[0, 0].item() == pytest.approx(16)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_it_is_added_in_the_dtype_of_the_embeddings(dtype: torch.dtype) -> None:
    x = torch.ones(2, 5, 8, dtype=dtype)
    encoding = Sinusoidal(8).to(dtype)
    out = encoding.embed_positions(x, Positions.sequence(5))
    assert out.dtype == dtype
    assert torch.equal(out, x + Sinusoidal(8).table(torch.arange(5)).to(dtype))


def test_a_dim_of_two_has_one_frequency_in_every_variant() -> None:
    for variant in SHEET:
        table = Sinusoidal(2, variant=variant).table(torch.tensor([3]))
        assert table[0].tolist() == pytest.approx([math.sin(3), math.cos(3)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 7}, "sinusoids need an even dim, for a sine and a cosine each, not 7"),
        ({"dim": 0}, "not 0"),
        ({"dim": 8, "base": 0}, "base must be above 0, not 0"),
        ({"dim": 8, "variant": "haf"}, r"unknown variant 'haf': did you mean 'half'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Sinusoidal(**settings)
