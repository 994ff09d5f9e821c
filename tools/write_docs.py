"""Write `docs/encodings/`, `docs/extensions/` and `docs/agreement.md` from the registry and from measurements.

With `--check`, say what is out of date, all but what is measured and drawn; with `--no-measure`, keep what was
measured.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

import extension_page
from doc_parts import CACHE, DIMS, MARK, built, cell, own
from small_png import shrink
from torch import nn

from lengthwise.agreement import COMPARISONS, measure
from lengthwise.agreement.pages import Results, how, names, page, paragraphs, table
from lengthwise.agreement.peers import version
from lengthwise.cli.list import WORDS, by_place, summary
from lengthwise.cli.show import parameters
from lengthwise.encodings.registry import encodings, example
from lengthwise.extension.registry import extensions
from lengthwise.patterns import patterns
from lengthwise.sites import CLAIMS, cached_keys, claims, direction, sites

DOCS = Path(__file__).parent.parent / "docs"
LENGTH = 64
MEASURED = "## Beside other packages"
DIRECTION = {
    "any": "causal and bidirectional attention",
    "causal": "causal attention only",
    "bidirectional": "bidirectional attention only",
}


def facts(name: str) -> str:
    """The part of an encoding's page that depends on the registry alone."""
    made, encoding = encodings[name], built(name)
    spec = example(name)
    other = f"{spec[:-1]}, {_first(made)})" if spec.endswith(")") else f"{name}({_first(made)})"
    about = inspect.getdoc(made) or ""
    module = inspect.getdoc(sys.modules[made.__module__]) or ""
    trained = sum(parameter.numel() for parameter in encoding.parameters() if parameter.requires_grad)
    turns = "rotation" in sites(encoding) or cached_keys(encoding) != "rotated"
    rows = [
        ("acts on", ", ".join(WORDS[site] for site in sites(encoding)) or "nothing"),
        ("direction", DIRECTION[direction(encoding)]),
        ("positions", f"{getattr(encoding, 'axes', 1)} {'axis' if getattr(encoding, 'axes', 1) == 1 else 'axes'}"),
        *([("cache", CACHE[cached_keys(encoding)])] if turns else []),
        ("largest position", _largest(encoding)),
        ("parameters", f"`{parameters(made)}`"),
        ("trained numbers", f"{trained} at dim {DIMS.dim}, {DIMS.heads} heads"),
        ("source", str(made.paper)),
    ]
    said = sorted(claims(encoding))
    parts = [
        f"# {name}",
        MARK,
        f"{summary(made)}.",
        f"```text\n{made.formula}\n```",
        "| | |\n|---|---|\n" + "\n".join(f"| {key} | {cell(value)} |" for key, value in rows),
        f"![{name}]({name}.png)",
        "## Claims",
        "\n".join(f"- {claim.replace('_', ' ')}: {CLAIMS[claim]}" for claim in said) or "None.",
        "## Building it",
        f'```py\nimport lengthwise as lw\n\nlw.build("{spec}", {_sizes(made)})\n```',
        f'`lengthwise show "{spec}"` draws it' + (f"; with a parameter: `{other}`." if _first(made) else "."),
        "## Notes",
        f"```text\n{module}\n```",
        f"## `{made.__module__}.{made.__name__}`",
        f"```text\n{about}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The list of all encodings by where they act, and of the patterns of layers."""
    parts = ["# Encodings", MARK]
    for place, rows in by_place().items():
        parts.append(f"## Acting {place}")
        lines = [f"- [{name}]({name}.md): {what}. {paper}." for name, what, paper in rows if name in own()]
        parts.append("\n".join(lines))
    parts.append("## Patterns of layers")
    parts.append("\n".join(f"- `{name}({parameters(made)})`: {summary(made)}." for name, made in patterns.items()))
    parts.append("What extends them: [extensions](../extensions/README.md).")
    parts.append("How they compare with other packages: [agreement](../agreement.md).")
    return "\n\n".join(parts) + "\n"


def beside(name: str, results: Results) -> str:
    """The measured part of an encoding's page."""
    # Extended encodings are told on the page of all comparisons, and named on that of extensions.
    plain = [one for one in results if not set(names(one[0])) & set(extensions)]
    own = [(comparison, outcomes) for comparison, outcomes in plain if name in names(comparison)]
    if not own:
        return f"{MEASURED}\n\nNone of the packages that `lengthwise agree` asks has it.\n"
    found = ", ".join(f"{peer} {version(peer) or 'not installed'}" for peer in dict.fromkeys(c.peer for c, _ in own))
    told = [f"**`{heading}`** {text}" for heading, text in paragraphs(own)]
    return "\n\n".join([MEASURED, f"With {found}. {how()}", table(own), *told]) + "\n"


def stale() -> list[str]:
    """What is out of date in the parts that nothing was measured for."""
    folder, faults = DOCS / "encodings", list[str]()
    for name in own():
        path = folder / f"{name}.md"
        written = path.read_text() if path.exists() else ""
        if written.split(MEASURED)[0].rstrip() != facts(name).rstrip() or MEASURED not in written:
            faults.append(f"{path.name} is out of date")
        if not (folder / f"{name}.png").exists():
            faults.append(f"{name}.png is missing")
    if not (folder / "README.md").exists() or (folder / "README.md").read_text() != index():
        faults.append("README.md is out of date")
    extended = DOCS / "extensions" / "README.md"
    if not extended.exists() or extended.read_text() != extension_page.page():
        faults.append("extensions/README.md is out of date")
    measured = (DOCS / "agreement.md").read_text() if (DOCS / "agreement.md").exists() else ""
    for one in COMPARISONS:
        if f"| `{one.spec}` | {one.peer}: {one.part} |" not in measured:
            faults.append(f"agreement.md lacks {one.spec} / {one.peer}: {one.part}")
    kept = {"README", *own()}
    faults += [f"{path.name} has no encoding" for path in sorted(folder.glob("*")) if path.stem not in kept]
    return faults


def draw(name: str, path: Path) -> None:
    """The picture of an encoding."""
    from lengthwise.report.pictures import as_chart, picture
    from lengthwise.report.theme import save

    save(as_chart(picture(built(name), DIMS, LENGTH), name), path, width=480, scale=1.0)
    path.write_bytes(shrink(path.read_bytes()))


def write(measured: bool = True) -> None:
    """Write all pages and pictures, and delete those without an encoding."""
    folder = DOCS / "encodings"
    folder.mkdir(exist_ok=True)
    results: Results = [(one, measure(one)) for one in COMPARISONS] if measured else []
    for name in own():
        path = folder / f"{name}.md"
        old = path.read_text().partition(MEASURED)[2] if path.exists() else "\n"
        path.write_text(f"{facts(name)}\n{beside(name, results) if measured else MEASURED + old}")
        draw(name, folder / f"{name}.png")
    (folder / "README.md").write_text(index())
    write_extensions()
    if measured:
        peers = {comparison.peer: version(comparison.peer) for comparison in COMPARISONS}
        (DOCS / "agreement.md").write_text(page(results, peers))
    for path in folder.glob("*"):
        if path.stem not in {"README", *own()}:
            path.unlink()


def write_extensions() -> None:
    """Write the page of all extensions."""
    (DOCS / "extensions").mkdir(exist_ok=True)
    (DOCS / "extensions" / "README.md").write_text(extension_page.page())


def _largest(encoding: nn.Module) -> str:
    limit = getattr(encoding, "max_position", None)
    return "any" if limit is None else f"{int(limit) - 1}, here: its table has {limit} rows"


def _sizes(made: type[nn.Module]) -> str:
    """A `Dims` with what the encoding reads of it."""
    wanted = [name for name in ("layers", "max_length") if name in inspect.signature(made).parameters]
    return f"lw.Dims(dim=64, heads=4{''.join(f', {name}={getattr(DIMS, name)}' for name in wanted)})"


def _first(made: type[nn.Module]) -> str:
    """The first parameter that has a default, as a spec says it."""
    for parameter in inspect.signature(made).parameters.values():
        if parameter.default not in (inspect.Parameter.empty, None):
            return f"{parameter.name}={parameter.default!r}"
    return ""


def main(arguments: Sequence[str]) -> None:
    """Write, or check."""
    if "--check" in arguments:
        faults = stale()
        if faults:
            sys.exit("\n".join(faults) + "\nrun `make docs`")
    else:
        write(measured="--no-measure" not in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
