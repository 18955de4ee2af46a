# SPDX-License-Identifier: Apache-2.0
"""The alert rules for Prometheus in a page: the blocks of code that begin with one"""

import re
import textwrap

BLOCK = re.compile(r"^```\w*\n(- alert: .*?)^```$", re.MULTILINE | re.DOTALL)
EXPRESSION = re.compile(r"^  expr: (.*?)(?=^  \w+: |^- |\Z)", re.MULTILINE | re.DOTALL)
NO_METRICS = re.compile(r"\[[^]]*\]|\{[^}]*\}")  # ranges and labels
WORD = re.compile(r"\b[a-zA-Z_]\w*\b(?!\s*\()")  # a function has parentheses
OPERATORS = {"and", "or", "unless", "bool", "offset"}


def of(page):
    """Returns all rules, as a file for Prometheus."""
    rules = "".join(BLOCK.findall(page))
    assert rules.count("- alert: ") == page.count("- alert: ") > 0, "a rule is in no block"
    return "groups:\n- name: page\n  rules:\n" + textwrap.indent(rules, "  ")


def metrics(page):
    """Returns the metrics that the rules name."""
    expressions = EXPRESSION.findall("".join(BLOCK.findall(page)))
    return {word for expression in expressions
            for word in WORD.findall(NO_METRICS.sub("", expression))} - OPERATORS
