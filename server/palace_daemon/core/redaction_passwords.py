"""How a password is told from a stand-in, a description, a name or a piece of code.

Invariant: each judgement looks at no more than the first 128 characters of a value.
"""

from __future__ import annotations

import re

from palace_daemon.core.redaction_values import (
    EXAMPLE_WORDS,
    JUDGED_CHARS,
    LAST_WORDS,
    STAND_IN_WORDS,
    has_path,
    is_password,
    is_template,
    words_of,
)

_FILLERS = frozenset(
    ("a", "an", "the", "my", "new", "old", "me", "it", "pass", "pw", "db", "user", "admin", "test", "this", "is")
)
_TYPES = (
    "str string text char varchar int integer bool boolean number any object bytes type yes test pass plain unknown"
    " postgres_password stdin interactive invalid incorrect wrong missing"
)
_NO_PASSWORDS = frozenset(_TYPES.split())
_SENTENCE = (
    "a an and are at be can cannot character characters chars contain contains digit digits do does enter field for"
    " format forgot forgotten from has have here hint hours if in incorrect input invalid is it least length letter"
    " letters login long lowercase match max maximum min minimum minutes missing must no not of on one optional or"
    " password passwords passphrase please required reset same short should symbol symbols that the this to too type"
    " uppercase use used user value weak when will with wrong you your step level version test data error show hide"
    " change changed update updated new confirm repeat select where and"
)
_SENTENCE_WORDS = frozenset(_SENTENCE.split())
_PUNCTUATION = "!?.,;:*~'\"-_ "
_BARE_TEMPLATE = re.compile(r"[$%@!*&]")
_SHELL_TEMPLATE = re.compile(r"[$%@&]|!\w+!$|\*{1,5}$")
_EXAMPLE = re.compile(r"[A-Za-z]+[-_. ]+[A-Za-z]|[a-z]+[A-Z]")
_DESCRIPTION = re.compile(
    r"\d{1,4}\+?[-_ ]?(?:digit|char|character|letter|word|number|byte|bit|hour|minute|min|second|day|week|month|step"
    r"|factor|item)s?",
    re.IGNORECASE,
)
_TYPE = re.compile(
    r"(?:n?var|n)?char\d*|varchar2|(?:u?int|float|str|string|utf|sha|md|base|argon|bcrypt|oauth)[-_]?\d+"
)
_VARIABLE = re.compile(
    r"(?:params?|k?w?args?|opts|options|data|form|form_?data|inputs?|fields?|config|body|re[qs]|request|response|ctx"
    r"|context|row|obj|result|props|state)\d{1,2}",
    re.IGNORECASE,
)
_RULES = re.compile(r"(?:required|nullable|sometimes|present|string|min|max|confirmed|optional)[|:,]", re.IGNORECASE)
_REGEX = re.compile(r"\(\?|\[\^?\w-\w|\\[dws][+*]")
_TEST_NAME = re.compile(r"test_\w+")
_CALL = re.compile(r"[A-Za-z_$][\w$.:]*[(\[{]")
_CHAIN = re.compile(r"[A-Za-z_$][A-Za-z_$.-]*=[A-Za-z0-9]|[a-z_.]+[,;]")  # a name, and how the code goes on
_PHRASE = re.compile(r"[A-Za-z0-9!@#$^*+_.,'~?\\ -]{8,64}")
_PHRASE_WORDS = range(2, 9)
_WORD_CHARS = 6
_ENVIRONMENT_CHARS = 4


def is_stand_in(value: str, *, is_bare: bool = False) -> bool:
    """Return whether ``value`` stands in for a password: ``changeme``, ``<password>``, ``my-password``.

    A word that stands in does so alone: ``Password123`` is what people have.
    """
    value = value[:JUDGED_CHARS]
    return is_template(value) or (is_bare and _BARE_TEMPLATE.match(value) is not None) or _is_stand_in_word(value)


def _is_stand_in_word(value: str) -> bool:
    words = words_of(value)
    if not words:
        return False
    stem = value.strip(_PUNCTUATION)
    if words[0] in EXAMPLE_WORDS and _EXAMPLE.match(stem):
        return True
    if any(map(str.isdigit, value)):
        return False
    return words[-1] in LAST_WORDS or (
        any(word in STAND_IN_WORDS for word in words) and all(word in STAND_IN_WORDS | _FILLERS for word in words)
    )


def is_password_value(value: str, *, is_prose: bool, is_bare: bool, is_word_enough: bool) -> bool:
    """Return whether a value that is labelled a password is one.

    Args:
        value: Without its quotes.
        is_prose: Whether the label stands in a sentence or a table: there a symbol alone makes no password.
        is_bare: Whether the value has no quotes.
        is_word_enough: Whether letters alone make a password here.
    """
    value = value[:JUDGED_CHARS]
    if is_stand_in(value, is_bare=is_bare):
        return False
    if any(map(str.isspace, value)):
        return not is_bare and _is_phrase(value, needs_digit=True)
    if _is_said(value, is_bare=is_bare):
        return False
    return (is_word_enough and len(value) >= _WORD_CHARS and not has_path(value)) or is_password(
        value, is_prose=is_prose
    )


def is_environment_value(value: str, *, is_bare: bool) -> bool:
    """Return whether the value of a variable of the environment is a password: letters alone may be one."""
    value = value[:JUDGED_CHARS].replace("\\ ", "")
    if is_template(value) or _is_stand_in_word(value) or (is_bare and _SHELL_TEMPLATE.match(value)):
        return False
    if any(map(str.isspace, value)):
        return _is_phrase(value, needs_digit=False)
    if len(value) < _ENVIRONMENT_CHARS or has_path(value) or _is_said(value, is_bare=False):
        return False
    return value.isalnum() or (any(map(str.isalpha, value)) and is_password(value.ljust(_WORD_CHARS, "x")))


def _is_said(value: str, *, is_bare: bool) -> bool:
    """Return whether ``value`` is the name of a type, a description, or code."""
    if value.casefold().rstrip("?!") in _NO_PASSWORDS or _DESCRIPTION.fullmatch(value) or _TYPE.fullmatch(value):
        return True
    if _CALL.match(value) or _TEST_NAME.fullmatch(value) or _RULES.match(value) or _REGEX.search(value):
        return True
    return is_bare and bool(_VARIABLE.fullmatch(value) or _CHAIN.match(value))


def _is_phrase(value: str, *, needs_digit: bool) -> bool:
    """Return whether words in quotes are a pass phrase, and no message about passwords."""
    words = [word.strip(_PUNCTUATION).casefold() for word in value.split()]
    if len(words) not in _PHRASE_WORDS or not _PHRASE.fullmatch(value) or value.startswith("-"):
        return False
    if needs_digit and not any(map(str.isdigit, value)):
        return False
    return any(map(str.isalpha, value)) and _SENTENCE_WORDS.isdisjoint(words)
