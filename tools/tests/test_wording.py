# SPDX-License-Identifier: Apache-2.0
"""The wording of docstrings and of messages, counted.

A relative clause with "what" or "who" often stands where a noun is missing. A
few are the best way to say something; many make a text hard to read.
"""

import ast
import collections
import re
import unittest

from tools.gate.places import ROOT

PACKAGE = ROOT / 'nova_rt'
_CLAUSES = re.compile(r'\b(what|who|whom|whose)(ever)?\b', re.I)
#: Of 1,000 words.
MOST = 2
#: Names of Ansible tasks that ask instead of naming an action.
_QUESTIONS = re.compile(r'- name: (See |.*\b(what|whether)\b)')
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(tree):
    """Docstrings, and the texts of log lines and errors."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            yield ast.get_docstring(node) or ''
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield strings(node.exc)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == 'LOG'
        ):
            yield ' '.join(strings(each) for each in node.args[:1])


def strings(tree):
    return ' '.join(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


class WordingTest(unittest.TestCase):
    def test_by_room(self):
        words, clauses = collections.Counter(), collections.Counter()
        for path in PACKAGE.rglob('*.py'):
            room = path.relative_to(PACKAGE).parts[0]
            if room == 'tests':
                continue
            for text in texts(ast.parse(path.read_text())):
                self.assertNotIn('See that', text, path)
                words[room] += len(text.split())
                clauses[room] += len(_CLAUSES.findall(text))
        self.assertGreater(words.total(), 40_000)
        for room in words:
            # A room of one module may have two.
            allowed = max(2, words[room] * MOST / 1000)
            with self.subTest(room):
                self.assertLessEqual(clauses[room], allowed)

    def test_names_of_tasks(self):
        for room in ('deploy', 'playbooks'):
            for path in (ROOT / room).rglob('*.y*ml'):
                with self.subTest(path):
                    self.assertNotRegex(path.read_text(), _QUESTIONS)
