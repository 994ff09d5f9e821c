from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from transformers.models.swin.modeling_swin import SwinRelativePositionBias

import lengthwise as lw
from lengthwise import Positions, SwinBias

COMPILED = """
import torch, lengthwise as lw

torch.set_num_threads(1)
encoding = lw.SwinBias(2, (2, 2))

def dense(place, segment):
    positions = lw.Positions(place, place, q_segment=segment, k_segment=segment, causal=False)
    return encoding.logit_bias(positions).dense()

compiled = torch.compile(dense, backend="eager", fullgraph=True)  # one graph: nothing is read on the way
together, apart = torch.tensor([[0, 0, 0]]), torch.tensor([[0, 0, 1]])
inside, outside = torch.tensor([[[5, 5], [5, 6], [6, 5]]]), torch.tensor([[[5, 5], [5, 6], [9, 5]]])
torch.testing.assert_close(compiled(inside, together), dense(inside, together))
print("inside")
torch.testing.assert_close(compiled(outside, apart), dense(outside, apart))
print("unseen")
try:
    compiled(outside, together)
except IndexError:
    print("refused")
"""


def grid(rows: int, columns: int) -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))[None]


def both(place: torch.Tensor, **settings: object) -> Positions:
    return Positions(place, place, causal=False, **settings)


@pytest.mark.parametrize("window", [(7, 7), (2, 5), (5, 2), (1, 4), (1, 1)])
def test_the_bias_is_that_of_transformers_for_square_windows_and_others(window: tuple[int, int]) -> None:
    theirs = SwinRelativePositionBias(3, window)
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    ours = SwinBias(3, window)
    ours.load_state_dict({"table": theirs.relative_position_bias_table})
    assert torch.equal(ours.logit_bias(both(grid(*window))).dense(), theirs())


def test_each_offset_has_a_row_of_its_own() -> None:
    encoding = SwinBias(1, (3, 4))
    with torch.no_grad():
        encoding.table.copy_(torch.arange(35.0)[:, None])
    bias = encoding.logit_bias(both(grid(3, 4))).dense()[0, 0]
    points = grid(3, 4)[0].tolist()
    for i, (row, column) in enumerate(points):
        for j, (other_row, other_column) in enumerate(points):
            assert bias[i, j] == (row - other_row + 2) * 7 + (column - other_column + 3)
    assert len(bias.unique()) == 35


def test_moving_the_window_changes_nothing_wherever_it_goes() -> None:
    encoding = SwinBias(2, (3, 4))
    here = encoding.logit_bias(both(grid(3, 4))).dense()
    assert torch.equal(encoding.logit_bias(both(grid(3, 4) + torch.tensor([2**20, -9]))).dense(), here)


@pytest.mark.parametrize(
    ("place", "rows", "columns"),
    [([[0, 0], [3, 0]], 3, 0), ([[0, 0], [0, 4]], 0, 4), ([[0, 0], [-3, 0]], 3, 0), ([[1, 9], [0, 5]], 1, 4)],
)
def test_an_offset_outside_the_window_is_refused_and_never_clamped(
    place: list[list[int]], rows: int, columns: int
) -> None:
    message = (
        f"two tokens that see each other are {rows} rows and {columns} columns apart, outside the window of 3 x 4: "
    )
    with pytest.raises(lw.PositionOutOfRange, match=message):
        SwinBias(2, (3, 4)).logit_bias(both(torch.tensor([place])))


def test_windows_of_one_image_kept_apart_by_segments_are_the_windows_alone() -> None:
    image = grid(4, 6)
    segment = image[..., 0] // 2 * 2 + image[..., 1] // 3  # four windows of 2 x 3
    encoding = SwinBias(2, (2, 3))
    q = torch.randn(1, 2, 24, 8, generator=torch.Generator().manual_seed(0))
    positions = both(image, q_segment=segment, k_segment=segment)
    for backend in ("reference", "sdpa"):
        out = lw.attention(q, q, q, encoding, positions, backend=backend)
        assert out.isfinite().all()
        for window in range(4):
            part = (segment == window)[0]
            alone = lw.attention(*[q[:, :, part]] * 3, encoding, both(grid(2, 3)), backend=backend)
            torch.testing.assert_close(out[:, :, part], alone)
    out.sum().backward()
    assert encoding.table.grad.isfinite().all()
    with pytest.raises(lw.PositionOutOfRange, match="outside the window of 2 x 3"):
        lw.attention(q, q, q, encoding, both(image))


def test_a_row_of_a_batch_out_of_its_window_is_refused_though_another_is_in_it() -> None:
    place = torch.tensor([[[0, 0], [1, 1]], [[0, 0], [1, 2]]])
    with pytest.raises(lw.PositionOutOfRange, match="are 1 rows and 2 columns apart"):
        SwinBias(1, (2, 2)).logit_bias(both(place))


def test_compiled_it_reads_no_tensor_and_still_gives_no_value_outside_the_window() -> None:
    # In a process of its own: the shape checks of these tests are not part of what a user compiles.
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["inside", "unseen", "refused"]


def test_the_gradient_of_the_table_counts_the_pairs_of_each_offset() -> None:
    encoding = SwinBias(1, (2, 3)).double()
    encoding.logit_bias(both(grid(2, 3))).dense().sum().backward()
    want = [(2 - abs(down)) * (3 - abs(right)) for down in (-1, 0, 1) for right in (-2, -1, 0, 1, 2)]
    assert encoding.table.grad[:, 0].tolist() == want


def test_a_table_in_low_precision_still_gives_a_float32_bias() -> None:
    encoding = SwinBias(2, (2, 2)).bfloat16()
    dense = encoding.logit_bias(both(grid(2, 2))).dense()
    assert dense.dtype == torch.float32
    assert torch.equal(dense[0, :, 0, 0], encoding.table[4].float())
    assert SwinBias(2, (2, 2)).double().logit_bias(both(grid(2, 2))).dense().dtype == torch.float64


def test_the_table_is_drawn_with_the_standard_deviation_asked_for() -> None:
    torch.manual_seed(0)
    assert SwinBias(64).table.std().item() == pytest.approx(0.02, rel=0.05)
    assert SwinBias(64, init_std=0.0).table.abs().max() == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "SwinBias needs at least 1 head, not 0"),
        ({"heads": 1, "window": (7,)}, r"window must be \(rows, columns\), both at least 1, not \(7,\)"),
        ({"heads": 1, "window": (0, 7)}, r"window must be \(rows, columns\), both at least 1, not \(0, 7\)"),
        ({"heads": 1, "init_std": -1.0}, "init_std must be at least 0, not -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        SwinBias(**settings)


def test_positions_that_have_no_row_in_the_table_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
        SwinBias(1).logit_bias(Positions.sequence(4))
    with pytest.raises(lw.InvalidArgument, match="whole positions only, and these are fractions"):
        SwinBias(1).logit_bias(both(grid(2, 2).float()))
