from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from lengthwise.errors import InvalidArgument, StorageError
from lengthwise.report.page import render_page, write_page
from lengthwise.report.sections import duration

EVIL = "rotary(note='</script><b>&\"x')"


class Page(HTMLParser):
    """The tags with their attributes, the words outside scripts, and the page's data."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.words, self.data, self._inside = [], [], "", ""
        self.feed(source)
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = dict(attrs).get("id", tag)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data):
        if self._inside == "data":
            self.data += data
        elif not self._inside:
            self.words.append(data)


@pytest.fixture(scope="module")
def mixed(sort_results, text_results):
    """Two tasks, and in one of them a run of fewer lengths and seeds whose spec tries to break out of the page."""
    return [*text_results(), *sort_results(), *sort_results([EVIL], seeds=1, lengths=(10, 20))]


@pytest.fixture(scope="module")
def source(mixed):
    return render_page(
        mixed, title="A <title>", command="lengthwise compare 'a & b'", summaries={"sort": "Put in order"}
    )


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def test_nothing_on_the_page_is_fetched_from_anywhere(page, source):
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert tag not in ("link", "iframe", "img", "object", "base")
    styles = "".join(re.findall(r"<style>(.*?)</style>", source, re.DOTALL))
    assert "url(" not in styles
    assert "@import" not in styles
    policies = [attributes["content"] for _, attributes in page.tags if "http-equiv" in attributes]
    assert policies[0].startswith("default-src 'none';")


def test_every_run_is_on_the_page_with_its_address(page, mixed):
    assert all(result.experiment.address in page.text for result in mixed)
    assert "2.13.0" in page.text
    assert "103,424" in page.text


def test_specs_titles_and_commands_are_shown_as_they_are_and_can_not_break_out(page, source):
    assert EVIL in page.text
    assert "A <title>" in page.text
    assert "lengthwise compare 'a & b'" in page.text
    assert "<b>" not in source.split("<main>")[1].split("</main>")[0]
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert EVIL in json.loads(page.data)["texts"]["markdown-2"]


def test_every_figure_has_its_place_and_its_spec_and_none_its_own_theme(page):
    places = [attributes["id"] for _, attributes in page.tags if attributes.get("class") == "chart"]
    figures = json.loads(page.data)["figures"]
    # Text: scores, by position, heat map, loss. Sort: scores, heat map, symbol accuracy, loss.
    assert sorted(places) == sorted(figures)
    assert len(places) == 8
    assert all("config" not in spec and "$schema" not in spec for spec in figures.values())


def test_each_task_says_what_it_is_who_wins_and_what_was_never_trained(page):
    assert "Put in order. Trained on lengths up to 10 (symbols to sort), tested up to 20." in page.text
    assert "alibi holds up best past 128" in page.text
    assert "of the table's 1024 rows only the first 128 were trained" in page.text
    assert "Teacher-forced: each symbol is predicted with the right ones before it." in page.text
    assert "With fewer than 5 seeds such an interval is rough" in page.text


def test_a_length_that_an_encoding_was_not_tested_at_is_a_dash(page):
    row = page.text[page.text.index(f"{EVIL} ", page.text.index("Exact match (% of examples)")) :]
    assert re.match(re.escape(EVIL) + r" [\d.]+ – [\d.]+ ", row)


def test_the_tables_to_copy_are_those_that_are_shown(page):
    texts = json.loads(page.data)["texts"]
    assert sorted(texts) == ["csv-1", "csv-2", "markdown-1", "markdown-2"]
    copied = {attributes["data-copy"] for _, attributes in page.tags if "data-copy" in attributes}
    assert copied == set(texts)


def test_the_same_results_give_the_same_page_and_the_file_holds_it_whole(sort_results, tmp_path):
    results = sort_results(["none"], seeds=1)
    path = write_page(results, tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8") == render_page(results)
    assert os.listdir(path.parent) == ["report.html"]
    assert path.stat().st_size < 1_500_000


def test_a_full_disk_is_a_clear_error_and_leaves_the_older_page_alone(sort_results, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("older")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_page(sort_results(["none"], seeds=1), path)
    assert path.read_text() == "older"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_place_that_can_not_be_written_and_no_results_are_clear_errors(sort_results, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="choose another place"):
        write_page(sort_results(["none"], seeds=1), tmp_path / "file" / "report.html")
    with pytest.raises(InvalidArgument, match="there are no results"):
        write_page([], tmp_path / "report.html")


def test_runs_without_losses_and_that_diverged_still_make_a_page(text_results):
    (run,) = text_results(["none"], seeds=1)
    nan = float("nan")
    place = replace(run.by_position, bits_per_byte=(nan,) * 5)
    broken = replace(run, scores={"bits_per_byte": (nan,) * 4}, by_position=place, losses=(), steps=())
    text = Page(render_page([broken])).text
    assert "every one diverged" in text
    assert "diverged" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.84, "0.8 s"), (15.2, "15 s"), (125, "2 min 05 s"), (3720, "1 h 02 min")]
)
def test_durations_are_written_for_people(seconds, text):
    assert duration(seconds) == text
