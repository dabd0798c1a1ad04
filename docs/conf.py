"""The site: `make docs` writes it to build/docs/html.

The pages are the guides of this folder, as GitHub shows them. Folders are made beside them and ignored by git:
reference/ (from docstrings), gallery/ (examples with what they print), start/ and project/ (pages outside docs/).
"""

import ast
import importlib
import inspect
import os
import re
import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

project = "torch_hrr"
author = "The torch_hrr authors"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
html_title = f"torch_hrr {release}"
html_theme = "furo"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
exclude_patterns = ["static"]
# The gallery's settings hold functions, which are not cached; two systems have a Monitor, and an annotation names one
# without its module.
suppress_warnings = ["config.cache", "ref.python"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]

# Pages outside docs/, by their names in the site.
OUTSIDE = {
    "start/readme": "README.md",
    "project/contributing": "CONTRIBUTING.md",
    "project/benchmarks": "bench/README.md",
    "project/kernels": "kernels/README.md",
    "project/changes": "CHANGELOG.md",
}

# Modules of the reference, in its order. Each of their public names has a page, under the module it is defined in.
REFERENCE = [
    "torch_hrr",
    "torch_hrr.hrr",
    "torch_hrr.hrr.integrations.torchhd",
    "torch_hrr.hrr.integrations.nengo_spa",
    "torch_hrr.hrr.integrations.holovec",
    "torch_hrr.hrr.integrations.pyhdc",
    "torch_hrr.hrr.integrations.phases",
    "torch_hrr.assembly",
    "torch_hrr.assembly.plot",
    "torch_hrr.encoding",
    "torch_hrr.field",
    "torch_hrr.field.gym",
    "torch_hrr.field.plot",
    "torch_hrr.hierarchy",
    "torch_hrr.runtime",
    "torch_hrr.io",
]
# Classes whose members torch, gymnasium and Python document.
FOREIGN = "Module, Tensor, Env, Wrapper, VectorEnv, VectorWrapper, dict, tuple, Exception, Protocol, BaseEstimator"

# Markdown as on GitHub: dollars for mathematics, anchors of headings in links.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4

# `name` in a docstring is a link where it names something public, and code elsewhere.
default_role = "py:obj"
autosummary_generate = False
autodoc_typehints_format = "short"
napoleon_use_rtype = False
napoleon_use_ivar = True

# Examples that the site runs, with the arguments of a run of seconds; "figure" is a file that the run draws.
EXAMPLES_RUN = {
    "encoding/digit_sequences.py": ["--units", "100"],
    "encoding/laser.py": ["--units", "100", "200", "--figure", "laser.png"],
    "field/dynamic_field.py": ["--excitation", "30", "--animation", "run.gif"],
    "hierarchy/laser.py": ["--passes", "1", "--seeds", "1", "--figure", "scales.png"],
    "hrr_layers.py": ["--epochs", "3", "--dim", "64"],
    "hrr_multilabel.py": ["--epochs", "10"],
}
# Examples that it shows and does not run. One that neither table names is shown, too.
EXAMPLES_SHOWN = {
    "distributed/divided_table.py": "it needs torchrun and several processes",
    "distributed/split_field.py": "it needs torchrun and several processes",
    "encoding/acceleration.py": "its figures are times, which differ from machine to machine",
    "encoding/next_character.py": "a reservoir that says anything of use takes a minute",
    "hrr_memory.py": "it starts a second process, by the name of its file, which a gallery does not give it",
    "hrr_attention.py": "attention over 64 steps takes minutes to train",
}
SECTIONS = {
    "hrr": "Holographic reduced representations",
    "assembly": "Assemblies",
    "encoding": "Encodings and reservoirs",
    "field": "Fields",
    "hierarchy": "Hierarchies",
    "distributed": "Several processes",
}


def in_gallery(example: Path) -> Path:
    """The place of an example in the gallery, which has a folder for each system.

    The site keeps the figures of all of them in one folder, by the names of the examples: where two folders have one
    name, that of the folder stands before it.
    """
    if len(example.parts) == 1:
        return "hrr" / example
    shared = len(list((ROOT / "examples").rglob(example.name))) > 1
    return example.with_name(f"{example.parent.name}_{example.name}") if shared else example


def write_examples(folder: Path) -> None:
    """Copies of the examples with what a gallery asks for: titles of sections and of pages, and notes on the run."""
    intro = "Programs of the folder examples/, with what they print. Times and the last digits differ between machines."
    write(folder / "GALLERY_HEADER.rst", f"Examples\n========\n\n{intro}\n")
    for path in sorted((ROOT / "examples").rglob("[!_]*.py")):
        name = path.relative_to(ROOT / "examples")
        copy = folder / in_gallery(name)
        section = SECTIONS.get(copy.parent.name, copy.parent.name.capitalize())
        write(copy.parent / "GALLERY_HEADER.rst", f"{section}\n{'-' * len(section)}\n")
        source = path.read_text()
        docstring = ast.get_docstring(ast.parse(source), clean=False)
        title = path.stem.replace("_", " ").capitalize().replace("Hrr", "HRR")
        if name.as_posix() in EXAMPLES_RUN:
            arguments = " ".join(EXAMPLES_RUN[name.as_posix()])
            note = f"The output below is of a short run, with ``{arguments}``."
        else:
            reason = EXAMPLES_SHOWN.get(name.as_posix(), "it is not among those that finish in seconds")
            note = f"The site shows it without running it: {reason}."
        described = re.sub(r"^Run: (.*)$", r"Run: ``\1``", docstring.strip(), flags=re.MULTILINE)
        described = re.sub(r"(?<!`)`([^`\n]+)`(?!`)", r"``\1``", described).replace("|", r"\\|")
        write(copy, source.replace(docstring, f"{title}\n{'=' * len(title)}\n\n{described}\n\n{note}\n", 1))


def write(path: Path, text: str) -> None:
    """Leaves a file that is as it should be alone, so that nothing is built or run again for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def arguments_of(gallery: object, script: dict[str, str]) -> list[str]:
    """What an example of the gallery finds on its command line."""
    place = Path(script["src_file"]).relative_to(EXAMPLES)
    return next(arguments for name, arguments in EXAMPLES_RUN.items() if in_gallery(Path(name)) == place)


def written_figures(block: object, variables: dict, gallery: dict) -> str:
    """Takes the files that an example has drawn into its page."""
    import shutil

    from sphinx_gallery.scrapers import figure_rst

    taken = []
    for path in sorted(Path(variables["src_file"]).parent.glob("*.[pg][ni][gf]")):
        target = Path(next(variables["image_path_iterator"])).with_suffix(path.suffix)
        shutil.move(path, target)
        taken.append(str(target))
    return figure_rst(taken, gallery["src_dir"])


def write_reference(folder: Path) -> None:
    """A page for each public function and class, and one for each module with a table of them."""
    modules = {name: importlib.import_module(name) for name in REFERENCE}
    homes: dict[int, str] = {}
    for name, module in modules.items():
        for member in module.__all__:
            value = getattr(module, member)
            if name not in homes.get(id(value), "") and f"{value_module(value)}.".startswith(f"{name}."):
                homes[id(value)] = name
    for name, module in modules.items():
        public = [(member, getattr(module, member)) for member in module.__all__]
        callables = [(member, value) for member, value in public if inspect.isroutine(value) or inspect.isclass(value)]
        aliases = [(member, value.__name__) for member, value in callables if member != value.__name__]
        callables = [(member, value) for member, value in callables if member == value.__name__]
        here = [(member, value) for member, value in callables if homes.get(id(value), name) == name]
        for member, value in here:
            kind = "exception" if isinstance(value, type) and issubclass(value, BaseException) else "class"
            inherited = "" if member == "Vector" else f"   :inherited-members: {FOREIGN}\n"  # a tensor has hundreds
            options = f"   :members:\n{inherited}   :show-inheritance:\n"
            what = f"auto{kind}:: {member}\n{options}" if inspect.isclass(value) else f"autofunction:: {member}\n"
            page = f"{member}\n{'=' * len(member)}\n\n.. currentmodule:: {name}\n\n.. {what}"
            write(folder / f"{name}.{member}.rst", page)
        shown = {member for member, _ in callables + aliases}
        others = [member for member in module.__all__ if member not in shown and not member.startswith("_")]
        lines = [name, "=" * len(name), "", f".. automodule:: {name}", "", f".. currentmodule:: {name}", ""]
        lines += [".. autosummary::", "   :nosignatures:", "", *(f"   {member}" for member, _ in callables), ""]
        also = ", ".join(f"``{member}`` of `{known}`" for member, known in aliases)
        lines += [f"Other names: {also}.", ""] * bool(aliases)
        lines += [f"Also: {', '.join(f'``{member}``' for member in others)}.", ""] * bool(others)
        lines += [".. toctree::", "   :hidden:", "", *(f"   {member} <{name}.{member}>" for member, _ in here), ""]
        write(folder / f"{name}.rst", "\n".join(lines))


def value_module(value: object) -> str:
    """Where a function or class is defined; a constant has no such place."""
    return getattr(value, "__module__", None) or ""


EXAMPLES = ROOT / "build" / "docs" / "examples"
sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": "|".join(re.escape(f"{os.sep}{in_gallery(Path(name))}") + "$" for name in EXAMPLES_RUN),
    "reset_argv": arguments_of,
    "image_scrapers": (written_figures,),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "notebook_extensions": set(),
    "min_reported_time": 1e9,
    "remove_config_comments": True,
}


def linked(text: str, source: Path, page: Path) -> str:
    """Markdown whose relative links, good on GitHub, are good in the site.

    Args:
        text: The page.
        source: The file that it is of, from where its links go.
        page: The file that the site makes of it, from where they shall go.
    """

    def follow(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups()
        aim = (source.parent / target).resolve()
        if not aim.is_relative_to(ROOT) or not aim.exists():
            return match[0]  # myst warns of a page that is missing
        name = aim.relative_to(ROOT).as_posix()
        place = {file: f"{where}.md" for where, file in OUTSIDE.items()}.get(name)
        if f"{name}/".startswith("examples/") and aim.is_dir():
            place = "gallery/index.rst"
        elif name.startswith("examples/") and aim.suffix == ".py":
            place = "gallery" / in_gallery(Path(name).relative_to("examples")).with_suffix(".rst")
        elif aim.is_dir() or (aim.suffix == ".md" and not place and not aim.is_relative_to(DOCS)):
            return label
        to = DOCS / place if place else aim
        return f"{image}[{label}]({os.path.relpath(to, page.parent)}{anchor or ''})"

    return re.sub(r"(!?)\[([^]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)", follow, text)


def guides_that_no_other_list_names(text: str) -> str:
    """The first page with its mark for all other guides replaced by their names, so that a new one needs no entry."""
    others = sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")
    listed = set(re.findall(r"^(?:.*<)?([\w/]+)>?$", text, re.MULTILINE))
    return re.sub(r"^\*$", "\n".join(name for name in others if name not in listed), text, flags=re.MULTILINE)


def on_source_read(app: object, name: str, content: list[str]) -> None:
    """Adapts a page of Markdown."""
    page = DOCS / f"{name}.md"
    if page.exists():
        content[0] = linked(content[0], ROOT / OUTSIDE.get(name, f"docs/{name}.md"), page)
        if name == "index":
            content[0] = guides_that_no_other_list_names(content[0])


def setup(app: object) -> None:
    """Pages from outside, links between them, and mathematics as MathML: browsers show it without a script."""
    from docutils import nodes
    from docutils.utils.math.latex2mathml import tex2mathml

    def inline(writer: object, node: nodes.math) -> None:
        writer.body.append(tex2mathml(node.astext(), as_block=False))
        raise nodes.SkipNode

    def block(writer: object, node: nodes.math_block) -> None:
        writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
        raise nodes.SkipNode

    write_reference(DOCS / "reference")
    write_examples(EXAMPLES)
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    for name, path in OUTSIDE.items():
        if (ROOT / path).exists():
            write(DOCS / f"{name}.md", (ROOT / path).read_text())
    app.connect("source-read", on_source_read)


html_math_renderer = "mathml"
