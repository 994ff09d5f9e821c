"""Learned tables made longer: resampled, carried on, read by two digits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.extension import Extrapolate, HierarchicalTable, Resample, ResampleGrid


def learned(table: Tensor) -> lw.Learned:
    return lw.Learned(table.shape[1], 1).with_table(table)


def waves(rows: int, periods: tuple[float, ...] = (9.0, 23.7, 61.3), slope: float = 0.01) -> Tensor:
    place = torch.arange(rows, dtype=torch.float64)[:, None]
    period = torch.tensor(periods, dtype=torch.float64)
    return (torch.sin(2 * math.pi * place / period + period) + slope * place).float()


# --- resampling ---------------------------------------------------------


def kernel(x: float) -> float:
    """Keys' cubic convolution kernel with a = -3/4."""
    a, x = -0.75, abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def by_hand(table: Tensor, length: int, kind: str, corners: bool) -> Tensor:
    n, rows = len(table), []
    for i in range(length):
        at = i * (n - 1) / (length - 1) if corners else (i + 0.5) * n / length - 0.5
        if kind == "linear":
            at = min(max(at, 0.0), n - 1)
            taps = {p: max(0.0, 1 - abs(at - p)) for p in range(n)}
        else:
            taps = {p: kernel(at - p) for p in range(math.floor(at) - 1, math.floor(at) + 3)}
        rows.append(sum(weight * table[min(max(p, 0), n - 1)].double() for p, weight in taps.items()))
    return torch.stack(rows)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ["linear", "cubic"])
@pytest.mark.parametrize("corners", [True, False])
def test_a_resampled_table_is_the_curve_at_its_places(kind: str, corners: bool) -> None:
    table = torch.randn(7, 3)
    longer = lw.extend(learned(table), Resample(19, kind, corners))  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(longer.table.double(), by_hand(table, 19, kind, corners), rtol=0, atol=1e-6)
    assert longer.max_position == 19


def test_linear_resampling_is_that_of_pytorch() -> None:
    table = torch.randn(8, 5)
    for corners in (True, False):
        theirs = torch.nn.functional.interpolate(table.T[None], size=20, mode="linear", align_corners=corners)[0].T
        ours = lw.extend(learned(table), Resample(20, corners=corners)).table
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_corners_keep_the_first_and_the_last_row_to_the_bit(kind: str) -> None:
    table = torch.randn(8, 5)
    ours = lw.extend(learned(table), Resample(29, kind)).table  # pyright: ignore[reportArgumentType]
    assert torch.equal(ours[[0, -1]], table[[0, -1]])
    torch.testing.assert_close(ours[::4], table, rtol=0, atol=1e-6)


@pytest.mark.parametrize("prefix", [0, 1])
def test_a_resampled_grid_is_that_of_a_vision_transformer(prefix: int) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(hidden_size=12, image_size=24, patch_size=4, num_attention_heads=2)
    vit = transformers.models.vit.modeling_vit.ViTEmbeddings(config)
    with torch.no_grad():
        vit.position_embeddings.normal_()
        theirs = vit.interpolate_pos_encoding(torch.zeros(1, 1 + 8 * 10, 12), 32, 40)[0]
    table = vit.position_embeddings.detach()[0, 1 - prefix :]
    ours = lw.extend(learned(table), ResampleGrid(rows=6, to=(8, 10), prefix=prefix)).table
    torch.testing.assert_close(ours.detach(), theirs[1 - prefix :], rtol=0, atol=1e-5)


def test_a_grid_that_is_not_square_keeps_rows_and_columns_apart() -> None:
    rows, columns = torch.arange(3.0), torch.arange(5.0)
    table = torch.cartesian_prod(rows, columns)
    ours = lw.extend(learned(table), ResampleGrid(rows=3, to=(5, 9), kind="linear", corners=True)).table
    expected = torch.cartesian_prod(torch.linspace(0, 2, 5), torch.linspace(0, 4, 9))
    torch.testing.assert_close(ours.detach(), expected, rtol=0, atol=1e-6)


# --- carried on ---------------------------------------------------------


@pytest.mark.parametrize("fit", ["last", "linear", "fourier", "gaussian"])
def test_trained_rows_stay_to_the_bit_and_new_ones_follow_in_the_same_dtype(fit: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        table = waves(40).to(dtype)
        longer = lw.extend(learned(table), Extrapolate(50, fit))  # pyright: ignore[reportArgumentType]
        assert torch.equal(longer.table[:40], table)
        assert longer.table.shape == (50, 3)
        assert longer.table.dtype == dtype
        assert bool(longer.table.isfinite().all())


def test_the_last_row_is_repeated() -> None:
    table = torch.randn(6, 4)
    longer = lw.extend(learned(table), Extrapolate(9, "last")).table
    assert torch.equal(longer[6:], table[5:].expand(3, -1))


def test_a_line_goes_on_as_the_trend_of_the_last_quarter() -> None:
    table = torch.cat((torch.randn(30, 2), torch.arange(10.0)[:, None] * torch.tensor([1.0, -2.0])))
    longer = lw.extend(learned(table), Extrapolate(44, "linear")).table
    expected = torch.arange(10.0, 14.0)[:, None] * torch.tensor([1.0, -2.0])
    torch.testing.assert_close(longer[40:].detach(), expected, rtol=0, atol=1e-4)


def test_sines_of_unknown_frequencies_and_a_trend_are_found_and_go_on() -> None:
    truth = waves(300)
    longer = lw.extend(learned(truth[:160]), Extrapolate(300, "fourier"))
    torch.testing.assert_close(longer.table.detach(), truth, rtol=0, atol=0.02)
    assert longer.fit_error < 0.02


def test_a_gaussian_process_goes_on_smoothly_and_returns_to_the_mean() -> None:
    truth = waves(80, periods=(60.0, 75.0), slope=0.0)
    longer = lw.extend(learned(truth[:70]), Extrapolate(600, "gaussian")).table.detach()
    torch.testing.assert_close(longer[70:74], truth[70:74], rtol=0, atol=0.05)
    torch.testing.assert_close(longer[-1], truth[:70].mean(0), rtol=0, atol=1e-4)


def test_a_gaussian_process_is_its_formula() -> None:
    from lengthwise.extension.gaussian_fit import predicted

    rows = torch.randn(6, 2, dtype=torch.float64)
    place = torch.arange(8, dtype=torch.float64)
    cov = torch.exp(-((place[:, None] - place) ** 2) / (2 * 3.0**2))
    mean = rows.mean(0)
    expected = mean + cov[6:, :6] @ torch.linalg.inv(cov[:6, :6] + 0.1 * torch.eye(6)) @ (rows - mean)
    torch.testing.assert_close(predicted(rows, 2, 3.0, 0.1), expected)


def test_the_error_of_the_fit_is_that_on_the_last_quarter_seen_from_the_rest() -> None:
    table = torch.randn(12, 4)
    longer = lw.extend(learned(table), Extrapolate(20, "last"))
    expected = float((table[8:9] - table[9:]).norm() / table[9:].norm())
    assert longer.fit_error == pytest.approx(expected, rel=1e-6)
    assert f"(fit_error {expected:.3g})" in repr(longer)


@pytest.mark.parametrize("fit", ["linear", "fourier", "gaussian"])
def test_the_error_tells_noise_from_a_curve(fit: str) -> None:
    noise = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    curve = waves(64, periods=(400.0, 300.0, 500.0), slope=0.0)
    on_noise = lw.extend(learned(noise), Extrapolate(80, fit)).fit_error  # pyright: ignore[reportArgumentType]
    on_curve = lw.extend(learned(curve), Extrapolate(80, fit)).fit_error  # pyright: ignore[reportArgumentType]
    assert on_noise > 0.95
    assert on_curve < 0.3


def test_the_last_row_alone_can_be_carried_on_and_has_no_error() -> None:
    for fit in ("last", "linear", "fourier", "gaussian"):
        longer = lw.extend(learned(torch.ones(1, 2)), Extrapolate(3, fit))
        torch.testing.assert_close(longer.table.detach(), torch.ones(3, 2), rtol=0, atol=1e-6)
        assert math.isnan(longer.fit_error)


def test_a_wide_table_is_carried_on_by_the_frequencies_of_its_strongest_directions() -> None:
    mixing = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    truth = waves(140) @ mixing
    longer = lw.extend(learned(truth[:110]), Extrapolate(140, "fourier")).table.detach()
    torch.testing.assert_close(longer, truth, rtol=0, atol=0.1)


# --- two digits ---------------------------------------------------------


def test_a_table_read_by_two_digits_is_the_trained_one_and_reaches_its_square() -> None:
    table = torch.randn(5, 3)
    plain = learned(table)
    longer = lw.extend(plain, HierarchicalTable(alpha=0.3))
    assert longer.max_position == 25
    x, at = torch.zeros(1, 25, 3), lw.Positions.sequence(25)
    rows = longer.embed_positions(x, at)[0].detach()
    assert torch.equal(rows[:5], table)
    u = (table - 0.3 * table[0]) / 0.7
    p = torch.arange(25)
    torch.testing.assert_close(rows, 0.3 * u[p // 5] + 0.7 * u[p % 5])
    assert longer.table is not plain.table


# --- all of them --------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [Resample(12), Resample(12, "cubic", corners=False), Extrapolate(12, "fourier"), ResampleGrid(3, to=(3, 4))],
    ids=repr,
)
def test_the_same_length_is_the_same_table_bit_for_bit(method: lw.extension.Method) -> None:
    plain = learned(torch.randn(12, 4))
    longer = lw.extend(plain, method)
    x, at = torch.randn(2, 12, 4), lw.Positions.sequence(12)
    assert torch.equal(longer.embed_positions(x, at), plain.embed_positions(x, at))


def test_the_longer_table_is_a_parameter_that_trains_and_the_old_one_stays() -> None:
    plain = learned(torch.randn(4, 2))
    before = plain.table.detach().clone()
    longer = lw.extend(plain, Resample(9))
    (parameter,) = longer.parameters()
    assert parameter is longer.table
    longer.embed_positions(torch.zeros(1, 9, 2), lw.Positions.sequence(9)).sum().backward()
    assert torch.equal(parameter.grad, torch.ones(9, 2))
    assert torch.equal(plain.table, before)
    assert plain.table.grad is None


def test_nothing_is_drawn_at_random() -> None:
    plain = learned(torch.randn(6, 2))
    before = torch.get_rng_state()
    for method in (Resample(8), Extrapolate(8, "gaussian"), HierarchicalTable()):
        lw.extend(plain, method)
    assert torch.equal(torch.get_rng_state(), before)


def test_two_methods_in_a_row_are_both_remembered() -> None:
    longer = lw.extend(lw.extend(learned(waves(20)), Extrapolate(30, "last")), Resample(40))
    assert [type(one).__name__ for one in longer.methods] == ["Extrapolate", "Resample"]
    assert longer.max_position == 40
    assert lw.claims(longer) == {"pairwise"}


def test_bad_settings_and_tables_say_what_to_do() -> None:
    plain = learned(torch.randn(12, 4))
    for method in (Resample(11), Extrapolate(11)):
        with pytest.raises(lw.InvalidArgument, match="shorter than the table of 12 rows"):
            lw.extend(plain, method)
    with pytest.raises(lw.InvalidArgument, match="did you mean 'cubic'"):
        Resample(20, "cubicc")  # pyright: ignore[reportArgumentType]
    with pytest.raises(lw.InvalidArgument, match="did you mean 'fourier'"):
        Extrapolate(20, "furier")  # pyright: ignore[reportArgumentType]
    with pytest.raises(lw.InvalidArgument, match="rows must divide 11"):
        lw.extend(plain, ResampleGrid(rows=3, to=(4, 4), prefix=1))
    with pytest.raises(lw.InvalidArgument, match=r"to=\(rows, columns\)"):
        ResampleGrid(rows=3, to=(4, 0))
    with pytest.raises(lw.InvalidArgument, match=r"not 0\.5"):
        HierarchicalTable(0.5)
    for method in (Resample(20), HierarchicalTable()):
        with pytest.raises(lw.InvalidArgument, match=r"can't extend Sinusoidal: .* learned table"):
            lw.extend(lw.Sinusoidal(8), method)


def test_another_table_must_fit_the_encoding() -> None:
    plain = lw.Learned(4, 6, init_std=0.5)
    assert plain.with_table(torch.randn(9, 4).double()).table.dtype == torch.float64
    for wrong in (torch.randn(9, 5), torch.randn(4), torch.randn(0, 4), torch.ones(3, 4, dtype=torch.int64)):
        with pytest.raises(lw.InvalidArgument, match="a table must be"):
            plain.with_table(wrong)
