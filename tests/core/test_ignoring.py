from __future__ import annotations

import pytest

from palace_daemon.core.ignoring import IgnoreRules

HOME = "/home/sam"


@pytest.mark.parametrize(
    ("rule", "path", "expected"),
    [
        ("/home/sam/private", "/home/sam/private/a.jsonl", True),
        ("/home/sam/private/", "/home/sam/private/deep/a.jsonl", True),
        ("/home/sam/private", "/home/sam/privateer/a.jsonl", False),
        ("~/private", "/home/sam/private/a.jsonl", True),
        ("~/private", "/srv/home/sam/private/a.jsonl", False),
        ("private", "/srv/private/a.jsonl", True),  # not rooted: at any depth
        ("rivate", "/srv/private/a.jsonl", False),
        ("*.bak.jsonl", "/srv/x/a.bak.jsonl", True),
        ("/srv/*/a.jsonl", "/srv/x/a.jsonl", True),
        ("/srv/*/a.jsonl", "/srv/x/y/a.jsonl", False),  # one star stays in its directory
        ("/srv/**/a.jsonl", "/srv/x/y/a.jsonl", True),
        ("/srv/**/a.jsonl", "/srv/a.jsonl", True),
        ("/srv/**", "/srv/x/y/a.jsonl", True),
        ("**/secret", "/srv/secret/a.jsonl", True),
        ("s?v", "/x/srv/a.jsonl", True),
        ("[ab].jsonl", "/x/b.jsonl", True),
        ("[!ab].jsonl", "/x/b.jsonl", False),
        ("[z-a].jsonl", "/x/[z-a].jsonl", True),  # no character class: means itself
        ("a(b.jsonl", "/x/a(b.jsonl", True),
        ("[", "/x/[", True),
        ("/srv/threads.db", "/srv/threads.db!/42", True),  # a conversation in a database
        ("C:\\work\\secret", "c:\\Work\\secret\\a.jsonl", True),
        ("C:\\work\\secret", "/work/secret/a.jsonl", False),
    ],
)
def test_path_rules(rule: str, path: str, expected: bool) -> None:
    assert IgnoreRules((rule,), home=HOME).ignores_path(path) is expected


@pytest.mark.parametrize(
    ("rule", "project", "expected"),
    [
        ("tidepool", "/work/tidepool", True),
        ("tidepool", "/work/tidepool/sub", False),  # a bare name is the last one
        ("tide*", "/work/tidepool", True),
        ("work", "/work/tidepool", False),
        ("/work/clients", "/work/clients/acme", True),
        ("/work/clients/*", "/work/clients/acme", True),
        ("clients/acme", "/work/clients/acme", True),
        ("~/work", "/home/sam/work/x", True),
        ("~", "/home/sam/work/x", True),
        ("tidepool", "tidepool", True),
        ("tidepool", "", False),
        ("*", "", False),  # what has no project is in none
        ("D:\\clients", "D:\\clients\\acme", True),
    ],
)
def test_project_rules(rule: str, project: str, expected: bool) -> None:
    assert IgnoreRules((), (rule,), home=HOME).ignores_project(project) is expected


def test_no_rules_ignore_nothing() -> None:
    rules = IgnoreRules((" ",), ("",))
    assert not rules
    assert not rules.ignores_path("/x")
    assert not rules.ignores_project("/x")
