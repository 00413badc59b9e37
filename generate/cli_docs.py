"""The output in docs/cli.md and in the how-to pages that need no cluster, see `console`."""

from generate.console import ROOT, program_and_arguments, renewed, schedclass
from generate.output import settle

TARGETS = [
    ROOT / "docs/cli.md",
    ROOT / "docs/how-to/change-a-class.md",
    ROOT / "docs/how-to/check-in-ci.md",
    ROOT / "docs/how-to/classes-in-git.md",
]


def output(command: str, _: str) -> str:
    """What a command prints."""
    program, arguments = program_and_arguments(command)
    if program != "schedclass":
        raise SystemExit(f"cannot run {program} without a cluster")
    return schedclass(arguments)


if __name__ == "__main__":
    pages = {page: renewed(page.read_text(encoding="utf-8"), output) for page in TARGETS}
    raise SystemExit(settle(pages, "python -m generate.cli_docs"))
