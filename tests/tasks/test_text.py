from __future__ import annotations

import hashlib
import os
import sysconfig
import time
from pathlib import Path

import pytest
import torch

from lengthwise.errors import DataError, InvalidArgument
from lengthwise.tasks import Task, build_task
from lengthwise.tasks.text import Text

LINE = "a line of the text, number {}\n"


def write(path: Path, lines: int = 60, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(LINE.format(number) for number in range(start, start + lines)))
    return path


def folder_of(root: Path, files: int, lines: int = 40) -> Path:
    for number in range(files):
        write(root / f"part{number % 3}" / f"{number}.txt", lines, start=1000 * number)
    return root


def bytes_of(text: Text) -> bytes:
    return bytes(text.data.tolist())


@pytest.fixture(scope="module")
def library() -> Text:
    return Text()


def test_without_paths_the_python_library_is_read_in_under_a_second() -> None:
    seconds = []
    for _ in range(3):  # the best of three: other work on the machine slows some
        start = time.process_time()
        text = Text()
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0
    assert 1_000_000 < len(text.data) + len(text.held_out().data) <= 8_000_000


def test_files_of_the_library_are_whole_and_in_one_part_only_and_about_a_tenth_is_held_out(library) -> None:
    train, held_out = bytes_of(library), bytes_of(library.held_out())
    root = Path(sysconfig.get_path("stdlib"))
    sources = [
        path.read_bytes() for name in ("asyncio", "email", "json", "xml") for path in (root / name).rglob("*.py")
    ]
    sources = [source for source in sources if len(source) > 500]
    in_train = [source in train for source in sources]
    in_held_out = [source in held_out for source in sources]
    assert not any(both == (True, True) for both in zip(in_train, in_held_out, strict=True))
    assert sum(in_train) + sum(in_held_out) > len(sources) / 4
    assert 0.09 <= len(held_out) / (len(train) + len(held_out)) <= 0.125


def test_tests_installed_packages_and_other_files_are_no_part_of_the_library(tmp_path, monkeypatch) -> None:
    wanted = [write(tmp_path / name, start=1000 * place) for place, name in enumerate(("a.py", "json/b.py"))]
    for name in ("site-packages/c.py", "test/d.py", "json/tests/e.py", "lib2to3/f.py", "__pycache__/g.py", "notes.txt"):
        write(tmp_path / name, start=5000)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: {"stdlib": str(tmp_path)}[name])
    text = Text()
    assert bytes_of(text) + bytes_of(text.held_out()) == b"\n".join(path.read_bytes() for path in wanted)


def test_a_python_without_library_sources_says_to_name_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "python.zip"))
    assert "no library sources" in refused(())


def test_a_smaller_limit_takes_files_from_all_over_the_library() -> None:
    small = Text(max_bytes=400_000)
    data = bytes_of(small) + bytes_of(small.held_out())
    root = Path(sysconfig.get_path("stdlib"))
    firsts = {
        path.name[0].lower() for path in root.glob("*.py") if path.stat().st_size > 500 and path.read_bytes() in data
    }
    assert 350_000 < len(data) <= 400_000
    assert min(firsts) < "e"
    assert max(firsts) > "p"


def test_text_is_a_task_of_bytes_whose_worked_examples_are_shown_as_they_stand(library) -> None:
    assert isinstance(library, Task)
    assert library.metric == "bits_per_byte"
    assert len(library.vocabulary) == len(set(library.vocabulary)) == 256
    assert [library.vocabulary[byte] for byte in (97, 32, 10, 9, 0, 255)] == ["a", " ", r"\n", r"\t", "0x00", "0xff"]
    for prompt, answer in library.examples:
        assert library.show(torch.tensor(list((prompt + answer).encode()))) == (prompt, answer)


def test_bytes_that_are_no_text_are_shown_as_escapes(library) -> None:
    assert library.show(torch.tensor([0xC3, 0xA4, 0x41])) == (r"\xc3", r"\xa4A")


@pytest.mark.parametrize("length", [2, 3, 129, 1024])
def test_a_window_is_a_piece_of_the_text_and_all_but_its_first_byte_is_the_answer(library, length) -> None:
    data = bytes_of(library)
    examples = library.sample(torch.Generator().manual_seed(0), 8, length)
    assert examples.tokens.shape == examples.answer.shape == (8, length)
    assert library.tokens_at(length) == length
    assert examples.tokens.dtype == torch.int64
    assert all(bytes(row) in data for row in examples.tokens.tolist())
    assert examples.answer.tolist() == [[False] + [True] * (length - 1)] * 8


def test_windows_start_evenly_and_reach_both_ends(tmp_path) -> None:
    text = Text(str(write(tmp_path / "a.txt")))
    data = bytes_of(text)
    length = len(data) - 3
    rows = text.sample(torch.Generator().manual_seed(0), 1000, length).tokens
    starts = torch.tensor([data.index(bytes(row)) for row in rows.tolist()]).bincount(minlength=4)
    assert len(starts) == 4
    assert (starts - 250).abs().max() < 5 * (1000 * 0.25 * 0.75) ** 0.5


def test_the_same_generator_state_gives_the_same_windows_and_another_seed_others(library) -> None:
    first, again, other = (
        library.sample(torch.Generator().manual_seed(seed), 4, 64).tokens.tolist() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_reading_again_gives_the_same_bytes_and_an_equal_task(tmp_path) -> None:
    folder = str(folder_of(tmp_path, 12))
    first, again = Text(folder), Text((folder,))
    assert first == again
    assert first != first.held_out()
    assert bytes_of(first) == bytes_of(again)


def test_one_file_holds_out_its_last_tenth(tmp_path) -> None:
    path = write(tmp_path / "a.txt")
    whole = path.read_bytes()
    text = Text(str(path))
    assert bytes_of(text) + bytes_of(text.held_out()) == whole
    assert len(text.held_out().data) == len(whole) // 10
    assert text.held_out().held_out() == text.held_out()


def test_few_files_are_joined_by_newlines_in_the_order_given(tmp_path) -> None:
    paths = [str(write(tmp_path / name, 20)) for name in ("z.txt", "a.txt", "m.txt")]
    text = Text(paths)
    assert bytes_of(text) + bytes_of(text.held_out()) == b"\n".join(Path(path).read_bytes() for path in paths)


@pytest.mark.parametrize("files", [10, 25, 60])
def test_many_files_are_held_out_whole(tmp_path, files) -> None:
    folder = folder_of(tmp_path, files)
    text = Text(str(folder))
    train, held_out = bytes_of(text), bytes_of(text.held_out())
    sources = [path.read_bytes() for path in sorted(folder.rglob("*.txt"))]
    inside = [source in held_out for source in sources]
    assert [source in train for source in sources] == [not held for held in inside]
    places = [train.find(source) for source in sources if source in train]
    assert places == sorted(places)
    assert 0.07 <= sum(inside) / files <= 0.13
    assert len(train) + len(held_out) == sum(map(len, sources)) + files - 2


def test_which_files_are_held_out_depends_on_their_path_below_the_root_only(tmp_path) -> None:
    one, other = (Text(str(folder_of(tmp_path / name, 30))) for name in ("one", "other"))
    assert bytes_of(one.held_out()) == bytes_of(other.held_out())
    assert one.fingerprint == other.fingerprint


def test_files_so_uneven_that_none_makes_a_tenth_are_split_by_bytes(tmp_path) -> None:
    folder = folder_of(tmp_path, 11, lines=1)
    write(folder / "huge.txt", 3000, start=50_000)
    text = Text(str(folder))
    total = len(text.data) + len(text.held_out().data)
    assert len(text.held_out().data) == total // 10


def test_a_file_that_two_paths_lead_to_is_read_once(tmp_path) -> None:
    folder = folder_of(tmp_path, 3)
    once, twice = Text(str(folder)), Text([str(folder), str(folder / "part0" / "0.txt"), str(folder / "part1")])
    assert once.fingerprint == twice.fingerprint


def test_a_long_file_is_cut_at_max_bytes(tmp_path) -> None:
    path = write(tmp_path / "a.txt", 500)
    text = Text(str(path), max_bytes=2000)
    assert bytes_of(text) + bytes_of(text.held_out()) == path.read_bytes()[:2000]


def test_the_fingerprint_covers_both_parts_and_changes_with_the_data(tmp_path) -> None:
    path = write(tmp_path / "a.txt")
    before = Text(str(path))
    train, held_out = bytes_of(before), bytes_of(before.held_out())
    assert before.fingerprint == hashlib.sha256(f"{len(train)}\n".encode() + train + held_out).hexdigest()
    assert before.held_out().fingerprint == before.fingerprint
    path.write_bytes(path.read_bytes()[:-2] + b"!\n")
    after = Text(str(path))
    assert bytes_of(after) == train
    assert after.fingerprint != before.fingerprint
    assert after != before


def test_a_folder_is_searched_for_text_and_the_rest_is_passed_over(tmp_path) -> None:
    wanted = write(tmp_path / "deep" / "er" / "a.md", 60)
    write(tmp_path / ".hidden" / "b.txt", 60, start=7000)
    write(tmp_path / ".c.txt", 60, start=8000)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\0\0" * 50)
    (tmp_path / "latin.txt").write_bytes("Gr\u00fc\u00dfe\n".encode("latin-1") * 50)
    os.mkfifo(tmp_path / "pipe")
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    os.symlink(tmp_path, tmp_path / "loop")
    text = Text(str(tmp_path))
    assert bytes_of(text) + bytes_of(text.held_out()) == wanted.read_bytes()


def test_a_character_that_spans_the_end_of_the_head_is_still_text(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 8191 + "\u00e4".encode() * 100)
    assert len(Text(str(path)).data) > 7000


@pytest.mark.parametrize("spec", ["text(paths=['{a}','{b}'])", "text(['{a}', '{b}'])", "text(paths=('{a}', '{b}'))"])
def test_text_is_built_by_a_spec_string(tmp_path, spec) -> None:
    a, b = folder_of(tmp_path / "a", 2), write(tmp_path / "b.txt")
    assert build_task(spec.format(a=a, b=b)) == Text([str(a), str(b)])


def test_one_path_may_be_plain_text_or_a_path_object(tmp_path) -> None:
    path = write(tmp_path / "a.txt")
    assert build_task(f"text({str(path)!r})") == Text((str(path),)) == Text(path)


def test_a_text_shorter_than_the_length_says_how_many_bytes_there_are_and_how_many_are_needed(tmp_path) -> None:
    text = Text(str(write(tmp_path / "a.txt")))
    for part, name in ((text, "training"), (text.held_out(), "held-out")):
        size = len(part.data)
        assert part.sample(torch.Generator().manual_seed(0), 2, size).tokens.shape == (2, size)
        message = rf"the {name} part of the text holds {size} bytes and a length of {size + 1} needs {size + 1}"
        with pytest.raises(DataError, match=message):
            part.sample(torch.Generator(), 2, size + 1)
        with pytest.raises(DataError, match=message):
            part.tokens_at(size + 1)


@pytest.mark.parametrize("length", [1, 0, -1, 2.0])
def test_a_window_needs_two_bytes_so_that_one_is_predicted(library, length) -> None:
    with pytest.raises(InvalidArgument, match=r"length of Text \(bytes of text\) must be a whole number of at least 2"):
        library.sample(torch.Generator(), 2, length)


def test_an_empty_batch_is_refused(library) -> None:
    with pytest.raises(InvalidArgument, match="batch must be a whole number of at least 1"):
        library.sample(torch.Generator(), 0, 8)


@pytest.mark.parametrize("paths", ["", [""], 3, [3], [None]])
def test_paths_that_are_no_text_are_refused(paths) -> None:
    with pytest.raises(InvalidArgument, match="names of files or folders"):
        Text(paths)


@pytest.mark.parametrize("max_bytes", [0, 999, 1e6, True])
def test_a_limit_below_a_thousand_bytes_is_refused(max_bytes) -> None:
    with pytest.raises(InvalidArgument, match="max_bytes of Text must be a whole number of at least 1000"):
        Text(max_bytes=max_bytes)


def refused(paths) -> str:
    with pytest.raises(DataError) as caught:
        Text(paths)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_path_that_does_not_exist_is_named(tmp_path) -> None:
    message = refused([str(write(tmp_path / "a.txt")), str(tmp_path / "b\n.txt")])
    assert message.startswith("there is no file or folder")
    assert "b\\n.txt" in message


@pytest.mark.parametrize("path", ["x" * 5000, "a\0b", "/dev/null/a"])
def test_a_path_that_can_not_be_looked_up_is_an_error_with_its_reason(path) -> None:
    assert "can't be read: " in refused(path)


def test_a_device_is_neither_a_file_nor_a_folder() -> None:
    assert refused("/dev/null") == "'/dev/null' is neither a regular file nor a folder"


def test_an_empty_file_that_was_named_is_an_error(tmp_path) -> None:
    (tmp_path / "a.txt").touch()
    assert refused(str(tmp_path / "a.txt")).endswith("a.txt' is empty")


@pytest.mark.parametrize("data", [b"text" * 900 + b"\0", b"\xff\xfe" * 900, "h\u00f6r\n".encode("latin-1") * 900])
def test_a_binary_file_that_was_named_is_an_error(tmp_path, data) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    assert refused(str(tmp_path / "a.bin")).endswith("a.bin' is binary, not UTF-8 text")


def test_a_folder_without_files_is_an_error(tmp_path) -> None:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    write(tmp_path / "a" / ".git" / "b.txt")
    assert "holds no files" in refused(str(tmp_path / "a"))


def test_a_folder_without_text_is_an_error(tmp_path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0" * 5000)
    assert f"{str(tmp_path)!r} gives 0 bytes of text, and at least 1000 are needed" in refused(str(tmp_path))


def test_a_text_of_less_than_a_thousand_bytes_is_too_small(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("x" * 999)
    assert "gives 999 bytes of text" in refused(str(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_text("x" * 1000)
    assert len(Text(str(tmp_path / "a.txt")).data) == 900


@pytest.mark.parametrize("named", [True, False])
def test_a_file_that_may_not_be_read_is_named_with_the_reason(tmp_path, monkeypatch, named) -> None:
    path = write(tmp_path / "a.txt")

    def forbid(self: Path, *_: object) -> None:  # file modes do not stop a test that runs as root
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", forbid)
    assert refused(str(path if named else tmp_path)) == f"{str(path)!r} can't be read: Permission denied"


def test_a_folder_that_may_not_be_read_is_named_with_the_reason(tmp_path, monkeypatch) -> None:
    def forbid(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", forbid)
    assert refused(str(tmp_path)) == f"{str(tmp_path)!r} can't be read: Permission denied"


def test_what_is_left_out_of_a_folder_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("It was a dark and stormy night. " * 100)
    before = Text([str(tmp_path)]).fingerprint
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "result.json").write_text("{}" * 1000)
    (tmp_path / "report.html").write_text("<p>" * 1000)
    assert Text([str(tmp_path)]).fingerprint != before
    left_out = [str(tmp_path / "runs"), str(tmp_path / "report.html")]
    assert Text([str(tmp_path)], leave_out=left_out).fingerprint == before
