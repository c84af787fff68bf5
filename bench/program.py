# SPDX-License-Identifier: Apache-2.0
"""Options, main() and output of the benches that run on a lab."""

import argparse
from collections.abc import Callable
import json
import pathlib
from typing import Any

from lab import console, paths, preflight
from lab.console import LabError


def parser(description: str | None, name: str) -> argparse.ArgumentParser:
    """Make a parser of options, with the file for the result.

    :param name: of the bench
    :returns: a parser to which the bench adds its own options
    """
    made = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        '--output',
        type=pathlib.Path,
        default=paths.RESULTS / 'bench' / f'{name}.json',
    )
    return made


def run(bench: Callable[[], int | None]) -> int:
    """Run a bench as root, and report an error of the lab.

    :returns: the exit code
    """
    try:
        preflight.require_root()
        return bench() or 0
    except LabError as error:
        console.fail(error)
        return 1


def write(result: dict[str, Any], file: pathlib.Path) -> None:
    """Write a result as JSON, and report where it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=2) + '\n')
    print(f'written to {file}')
