"""Standing wishes, and the requests that they bear on.

A preference, a convention or an instruction ("I avoid dairy", "always use bun, not npm", "from now on, short commits")
is said once, in passing, and bears on every later request of its kind ("what should I cook tonight?"), with which it
shares no word and hardly a topic. What is structural is its form, and that of the request: one says how somebody always
wants something, the other asks for something now, not for what was said or done.

The word lists are of English, from general knowledge; their forms were checked on the development halves of PrefEval
and BEAM, and hold no word of what is wanted there. Pure functions, safe from any thread, linear in the length of the
text.
"""

from __future__ import annotations

import re

_SELF = r"\b(?:i|we|i'm|i am|i've|i have|i'd|i would|my|our|we're)\b"
_TASTES = (
    r"prefer(?:s|red|ring)?|preferences?|favou?r(?:s|ites?)?|love|enjoy|adore|hate|disliked?|despise|detest|loathe"
    r"|avoid(?:ing)?|aversion|averse|allerg\w*|intoleran\w*|phobia|afraid|fear|(?:can't|cannot|can not) stand"
    r"|no interest|not interested|refuse|exclusively|always|never|only|strictly|uncomfortable|not comfortable"
    r"|(?:don't|do not|dont|didn't|can't|cannot) (?:like|enjoy|want|eat|drink|use|wear|watch|buy|consume|tolerate)"
    r"|fan of|into|against|opposed|objections?|insist|rather|usually|prioriti[sz]e[sd]?|uninterested|strict|firmly"
    r"|tend to|sensitive|vegan|vegetarian"
    r"|find .{2,40}(?:boring|annoying|ineffective|uncomfortable|stressful|distracting|overwhelming|difficult|hard)"
)
_BETWEEN = r"\W{1,3}+[\w'-]{1,30}+"
"""A word, never cut in two ways: "'" and "-" stand both in and between words, and four words of them could be told
apart in millions of ways."""
_TASTE = re.compile(
    rf"{_SELF}(?:{_BETWEEN}){{0,3}}?(?:{_BETWEEN}\W{{1,3}}|\W{{1,3}}(?:\w[\w'-]{{0,28}}['-])?)(?:{_TASTES})\b",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"^(?:(?:please|and|but|also|so),?\s+)?(?:always|never|whenever|from now on|going forward|make sure|be sure|ensure"
    r"|remember to|keep in mind|don't|do not|avoid|stick (?:to|with)|prefer)\b"
    r"|\b(?:from now on|going forward|every time|by default|as a rule)\b"
    r"|^(?:if|when(?:ever)?|before|after)\b[^,]{2,80},\s+(?:please\s+)?(?:always|never|don't|do not|make sure|avoid)\b",
    re.IGNORECASE,
)
_OCCASION = re.compile(
    r"(?:\b(?:when(?:ever)?|every time|any ?time)|^if|,\s+if|\bin case)\s+(\S.{7,})", re.IGNORECASE | re.DOTALL
)
_ASKING_FOR = re.compile(
    r"^(?:i|we|you)\s+(?:ask|talk|inquire|want|need|request|discuss|mention|work|deal|bring up|write|am|are)"
    r"(?:\s+(?:you|for|about|on|with|to know|up|questions about))*\s+",
    re.IGNORECASE,
)
_LEADING_CHARS = 4
_OCCASION_CHARS_MIN = 4
_REQUEST = re.compile(
    r"\b(?:(?:can|could|would|will) you|recommend\w*|suggest\w*|advi[cs]e|tips|ideas|(?:should|shall) (?:i|we)"
    r"|how (?:do|can|could|should|would) (?:i|we)|what (?:are|is) (?:some|the best|a good|the most)|(?:help|show) me"
    r"|walk me|i'?m (?:planning|looking|thinking|considering|about to|going to)|i (?:want|need|would like|'d like) to"
    r"|i'd like|best (?:way|ways|practices?)|where (?:can|should|could) (?:i|we))\b"
    r"|\bwhat [^.?!\n]{0,200}?\b(?:should|would|could|can) (?:i|we|you)\b",
    re.IGNORECASE,
)
_ABOUT_THE_PAST = re.compile(
    r"\b(?:why|did|was|were|had|has|have (?:i|we|you)|i've|we've|i have|we have|decided|said|told|mentioned|discussed"
    r"|talked|discussions?|conversations?|chats?|sessions?|brought|remember|remind|earlier|previous\w*|last|ago|before"
    r"|yesterday|originally|so far|summar\w+|across|throughout|in order|order in which|over time)\b",
    re.IGNORECASE,
)
_ABOUT_WHAT_IS = re.compile(r"\bdo we\b|\bdoes (?!(?:an?|it|one|this|that|any\w*|every\w*|some\w*)\b)\w", re.IGNORECASE)
"""Asks how things are done or stand among us ("how do we run it?", "what advice does Ben give?"): the answer was told
and is no wish. Not "how do I": that also begins questions about what the asker has never done."""


def is_wish(sentence: str) -> bool:
    """Return whether a sentence says how somebody wants something always, not just now."""
    sentence = sentence.replace("\u2019", "'")
    return bool(_TASTE.search(sentence) or _RULE.search(sentence))


def occasion_of(wish: str) -> str:
    """Return the occasion on which a wish holds, where it names one, else an empty text.

    "Explain each step when I ask about fractions" holds for "fractions": a request resembles the occasion, not what is
    then to be done.
    """
    found = _OCCASION.search(wish)
    if found is None:
        return ""
    occasion = found.group(1)
    if found.start() < _LEADING_CHARS:  # "When I ask about fractions, explain each step": the rest is the wish
        occasion, comma, _rest = occasion.partition(",")
        if not comma:
            return ""
    occasion = _ASKING_FOR.sub("", occasion.strip().rstrip(".!"))
    return occasion if len(occasion) >= _OCCASION_CHARS_MIN else ""


def is_request(question: str) -> bool:
    """Return whether a question asks for something now, on which standing wishes bear, and not for what was or is."""
    question = question.replace("\u2019", "'")
    if _ABOUT_THE_PAST.search(question) or _ABOUT_WHAT_IS.search(question):
        return False
    return bool(_REQUEST.search(question))
