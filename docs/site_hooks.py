"""Hooks of the site: reference pages, typeset mathematics, and links to files of the repository."""

from __future__ import annotations

import ast
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any

from command_line import command_line_page
from docstring_markup import as_markdown

_PACKAGE = Path(__file__).parents[1] / "src" / "feduplink"
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")
_IMAGE = re.compile(r'<img [^>]*src="([^"]+)"[^>]*>')
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
#: Fenced blocks, also those in lists, and inline code: neither links nor formulas.
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_FORMULA = re.compile(
    r"\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$\s](?:[^$]*?[^$\s])?)\$", re.DOTALL
)
#: A logarithm of something without parentheses.
_LN = re.compile(r'(?<!<msub>)<mi>ln</mi>(?!<mo stretchy="false">&#x00028;)')
_PLACEHOLDER = "formula{}end"
_PLACED = re.compile(r"<p>formula(\d+)end</p>|formula(\d+)end")

#: Packages that users import from, and their titles.
PUBLIC = {
    "feduplink": "Everyday functions and classes",
    "feduplink.channels": "Channels",
    "feduplink.link": "The link",
    "feduplink.workflows": "Workflows and results",
    "feduplink.policies": "Policies",
    "feduplink.lagrangian": "The Lagrangian of one channel",
    "feduplink.training": "Training",
    "feduplink.optimum": "Optimum and bounds",
    "feduplink.scheduling": "Schedules of a round",
    "feduplink.federated": "Federated learning",
    "feduplink.federated.models": "Federated models",
    "feduplink.federated.tasks": "Federated tasks",
    "feduplink.federated.data": "Data sets",
    "feduplink.flower": "Flower",
    "feduplink.export": "ONNX files",
    "feduplink.proofs": "Proof files",
    "feduplink.experiments": "Experiments of the paper",
    "feduplink.serving": "HTTP service",
    "feduplink.serving.playground": "Playground",
}
#: Public modules without ``__all__``: all names without an underscore are public.
MODULES = {
    "feduplink.registry": "Registries of names",
    "feduplink.problem": "Problems",
    "feduplink.judgement": "Judging constraints",
    "feduplink.errors": "Errors",
    "feduplink.scenario": "Scenarios",
    "feduplink.progress": "Progress and callbacks",
    "feduplink.reporting.comparison": "Plots of comparisons",
    "feduplink.reporting.training": "Plots of training runs",
    "feduplink.reporting.federated": "Plots of federations",
    "feduplink.link.bler": "Block error curves",
}
#: The menu of the API reference: the purpose of each group, and its modules.
GROUPS = {
    "Start here": (
        "One function per job; each takes a scenario and returns a result.",
        ("feduplink", "feduplink.workflows", "feduplink.scenario"),
    ),
    "Physics and problem": (
        "Channels, SINR, rates, arrivals, upload times; objective and constraints.",
        (
            "feduplink.channels",
            "feduplink.link",
            "feduplink.link.bler",
            "feduplink.problem",
            "feduplink.judgement",
        ),
    ),
    "Policies and optimisation": (
        "Policies and their training; dual function, branch and bound, schedules.",
        (
            "feduplink.policies",
            "feduplink.training",
            "feduplink.lagrangian",
            "feduplink.optimum",
            "feduplink.proofs",
            "feduplink.scheduling",
        ),
    ),
    "Federated learning": (
        "Federations over the uplink, tasks, models and data; the uplink inside Flower.",
        (
            "feduplink.federated",
            "feduplink.federated.tasks",
            "feduplink.federated.models",
            "feduplink.federated.data",
            "feduplink.flower",
        ),
    ),
    "Files, plots and services": (
        "Figures, exported policies, the HTTP service, the experiments of the paper.",
        (
            "feduplink.reporting.comparison",
            "feduplink.reporting.training",
            "feduplink.reporting.federated",
            "feduplink.export",
            "feduplink.serving",
            "feduplink.serving.playground",
            "feduplink.experiments",
        ),
    ),
    "Extending": (
        "Names of your own, progress callbacks, errors.",
        ("feduplink.registry", "feduplink.progress", "feduplink.errors"),
    ),
}
_API_INDEX = "reference/api.md"
_COMMAND_LINE = "reference/command-line.md"


def public_names(module: str) -> list[str]:
    """Return the ``__all__`` of a package's stub, or of the package itself."""
    directory = _PACKAGE.joinpath(*module.split(".")[1:])
    stub = directory / "__init__.pyi"
    source = stub if stub.exists() else directory / "__init__.py"
    for statement in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(statement.value)]
    raise ValueError(f"{module} has no __all__")


def listed_names(module: str) -> list[str]:
    """Return the public names of a package that have no page of their own."""
    pages = {*PUBLIC, *MODULES}
    names = [
        name
        for name in public_names(module)
        if name != "__version__" and f"{module}.{name}" not in pages
    ]
    # Functions, then classes, then constants.
    return sorted(names, key=lambda name: (not name[0].islower(), name.isupper(), name))


@cache
def package_docs() -> Any:
    """Return the package as griffe reads it, without importing it."""
    import griffe

    return griffe.load("feduplink", search_paths=[_PACKAGE.parent], resolve_aliases=True)


def summaries(module: str) -> dict[str, str]:
    """Return the first sentence of the docstring of each name of a package."""
    package = package_docs()
    found = {}
    for name in listed_names(module):
        member = package[f"{module}.{name}".removeprefix("feduplink.")]
        text = as_markdown(member.docstring.value) if member.docstring else ""
        found[name] = text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    return found


def reference_pages() -> dict[str, str]:
    """Return the pages of the API reference by path."""
    pages = {}
    for module, title in PUBLIC.items():
        symbols = "\n\n".join(f"::: {module}.{name}" for name in listed_names(module))
        pages[f"reference/{module}.md"] = f"# {title}: `{module}`\n\n{symbols}\n"
    for module, title in MODULES.items():
        pages[f"reference/{module}.md"] = f"# {title}: `{module}`\n\n::: {module}\n"
    pages[_API_INDEX] = api_index()
    return pages


def api_index() -> str:
    """Return the first page of the API reference: modules by purpose."""
    titles = {**PUBLIC, **MODULES}
    parts = [
        "# API reference\n\nEvery public name with its docstring. Shapes are given with L workers "
        "and N channels, quantities with their unit. For a tour of the interface, read "
        "[the Python interface](python.md) first.\n"
    ]
    for group, (purpose, modules) in GROUPS.items():
        parts.append(f"## {group}\n\n{purpose}\n\n| module | contents |\n| --- | --- |")
        for module in modules:
            names = listed_names(module) if module in PUBLIC else []
            shown = ", ".join(f"`{name}`" for name in names[:12]) + (", …" if names[12:] else "")
            text = f"**{titles[module]}.** {module_summary(module)} {shown}".strip()
            parts.append(f"| [`{module}`]({module}.md) | {text} |")
        parts.append("")
    return "\n".join(parts)


def module_summary(module: str) -> str:
    """Return the first sentence of the docstring of a module."""
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return as_markdown(text.partition("\n\n")[0].replace("\n", " ")).replace("|", "\\|")


def name_table(module: str) -> str:
    """Return a table of the names of a package with their summaries."""
    rows = [
        f"| [`{name}`](#{module}.{name}) | {text} |" for name, text in summaries(module).items()
    ]
    return "\n".join(["| name | summary |", "| --- | --- |", *rows])


def on_config(config: Any, **_further: Any) -> Any:
    """Add the generated pages to the menu."""
    titles = {**PUBLIC, **MODULES}
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] += [
                {"Command line": _COMMAND_LINE},
                {
                    "API": [
                        {"Overview": _API_INDEX},
                        *(
                            {group: [{titles[name]: f"reference/{name}.md"} for name in modules]}
                            for group, (_purpose, modules) in GROUPS.items()
                        ),
                    ]
                },
            ]
    return config


def on_files(files: Any, config: Any, **_further: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    pages = {**reference_pages(), _COMMAND_LINE: command_line_page()}
    for module in PUBLIC:
        path = f"reference/{module}.md"
        heading, rest = pages[path].split("\n\n", 1)
        pages[path] = f"{heading}\n\n{name_table(module)}\n\n{rest}"
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_further: Any) -> str:
    """Redirect links that leave the documentation, and take formulas out of the Markdown.

    Links to files of the repository lead to ``extra.repository`` in ``mkdocs.yml``; without it the
    path takes their place. Formulas would be mangled as Markdown: they come back, as MathML, in
    :func:`on_page_content`.
    """
    address = config.extra.get("repository")
    page.formulas = []

    def outside(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[2]))
        if not target.startswith("../"):
            return link[0]
        path, hash_sign, anchor = target.removeprefix("../").partition("#")
        if address:
            return f"[{link[1]}]({address}/blob/main/{path}{hash_sign}{anchor})"
        return link[1] if path in link[1] else f"{link[1]} (`{path}`)"

    def placeholder(formula: re.Match[str]) -> str:
        page.formulas.append(mathml(formula["display"] or formula["inline"], formula["display"]))
        return _PLACEHOLDER.format(len(page.formulas) - 1)

    prose = _CODE.split(markdown)
    prose[::2] = [_FORMULA.sub(placeholder, text) for text in prose[::2]]
    # A link's text may be code.
    blocks = _FENCE.split("".join(prose))
    blocks[::2] = [_LINK.sub(outside, text) for text in blocks[::2]]
    return "".join(blocks)


def mathml(formula: str, display: object = None) -> str:
    """Convert LaTeX to MathML, as a block if ``display`` is true.

    >>> mathml("p_i").startswith("<math")
    True
    """
    from latex2mathml.converter import convert

    converted = convert(" ".join(formula.split()), display="block" if display else "inline")
    spaced = _LN.sub('<mi>ln</mi><mspace width="0.17em" />', str(converted))
    # Browsers ignore this variant: the bold digit is a character of its own.
    return spaced.replace(
        '<mn mathvariant="bold">1</mn>', "<mn>\N{MATHEMATICAL BOLD DIGIT ONE}</mn>"
    )


def on_page_content(html: str, page: Any, **_further: Any) -> str:
    """Insert the formulas; link each figure to itself in full size."""

    def formula(place: re.Match[str]) -> str:
        if place[1] is not None:
            return f'<div class="formula" tabindex="0">{page.formulas[int(place[1])]}</div>'
        return str(page.formulas[int(place[2])])

    html = _PLACED.sub(formula, html)
    return _IMAGE.sub(r'<a href="\1">\g<0></a>', html)
