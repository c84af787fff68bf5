#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print two supply logs, of the control and of the series, side by side."""

import sys


def read(path: str) -> dict[tuple[str, str], list[str]]:
    rows = {}
    with open(path, encoding='ascii', errors='replace') as log:
        for line in log:
            words = line.split()
            if len(words) >= 12 and words[0] in ('----', 'ok', 'FAIL'):
                # nothing beside: the column is empty
                if len(words) == 12:
                    words.insert(5, '-')
                rows[words[1], words[2]] = words[3:]
    return rows


def main() -> None:
    control, series = read(sys.argv[1]), read(sys.argv[2])
    form = '{:>4} {:>3} {:>6} {:>7} {:>6}  {:>36}   {:>36}'
    print(
        form.format(
            'case',
            'of',
            'Q us',
            'P us',
            'beside',
            'without: min short gap ppm',
            'with: min short gap ppm',
        )
    )
    for key, row in series.items():
        old = control.get(key)
        print(
            form.format(
                *key,
                row[0],
                row[1],
                row[2],
                show(old) if old else 'refused',
                show(row),
            )
        )


def show(row: list[str]) -> str:
    periods, least, short, gap, ppm = row[3], row[4], row[6], row[8], row[9]
    return f'{least:>10} {short:>4}/{periods:<5} {gap:>6} {ppm:>7}'


if __name__ == '__main__':
    main()
