/** Which part of a text is shown of a hit, and which of its words matched. */

import { visible } from "./wording";

/** Put around matched words: plain text in any theme, and rare in prose and code. */
export const MARKS = ["«", "»"] as const;

/** Words that match nearly everywhere: marked only where nothing else matched. */
const COMMON = new Set(
  ("a about all an and any are as at be been but by can could did do does for from had has have he her his how i if in into is it " +
    "its me my no not of on or our out she should so some that the their them then there they this to up us use was we were what " +
    "when where which who why will with would you your").split(" "),
);

/** As the daemon's analyser folds, roughly: case and accents do not count. */
export function fold(text: string): string {
  return text.normalize("NFD").replace(/\p{M}+/gu, "").toLowerCase();
}

const ENDINGS = ["ations", "ation", "ings", "ing", "edly", "ies", "ed", "es", "ers", "er", "ly", "s", "e", "y"];

/** What inflected forms of an English word share; the daemon stems better, and this only has to find its words again. */
export function stem(word: string): string {
  const ending = ENDINGS.find((one) => word.endsWith(one) && word.length - one.length >= 3) ?? "";
  const begun = word.slice(0, word.length - ending.length);
  return begun.length > 3 ? begun.replace(/(.)\1$/, "$1") : begun;
}

/** A stretch of a text, in UTF-16 units. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

interface Match extends Span {
  readonly term: string;
}

const WORD = /[\p{L}\p{M}\p{N}]+/gu;
const PART = /\p{Lu}+(?![\p{Ll}])|\p{Lu}?\p{Ll}[\p{Ll}\p{M}]*|\p{N}+|[\p{L}\p{M}]+/gu;
const UNSPACED = /[\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]/u;

/** Where words of `terms` stand in `text`, in order and apart: whole words, parts of camelCase, inflected forms. */
export function matchesIn(text: string, terms: readonly string[]): Match[] {
  const folded = [...new Set(terms.map(fold).filter(Boolean))];
  const telling = folded.filter((term) => !COMMON.has(term));
  const wanted = telling.length ? telling : folded;
  const stems = new Map(wanted.filter((term) => /^[\p{L}\p{N}]+$/u.test(term)).map((term) => [stem(term), term]));
  const found: Match[] = [];
  for (const word of text.matchAll(WORD)) {
    const term = stems.get(stem(fold(word[0])));
    if (term !== undefined) found.push({ start: word.index, end: word.index + word[0].length, term });
    else found.push(...partsIn(word[0], word.index, stems));
  }
  const joined = wanted.filter((term) => !/^[\p{L}\p{N}]+$/u.test(term) || UNSPACED.test(term));
  return apart([...found, ...joined.flatMap((term) => literal(text, term))]);
}

function partsIn(word: string, at: number, stems: ReadonlyMap<string, string>): Match[] {
  const found: Match[] = [];
  for (const part of word.matchAll(PART)) {
    const term = part[0].length < word.length ? stems.get(stem(fold(part[0]))) : undefined;
    if (term !== undefined) found.push({ start: at + part.index, end: at + part.index + part[0].length, term });
  }
  return found;
}

/** What is no single word (`tiles.toml`, `--no-fold`, 東京) is looked for as it is. */
function literal(text: string, term: string): Match[] {
  const found: Match[] = [];
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return found; // places would not agree; a few letters grow when they get small
  for (let at = lower.indexOf(term); at >= 0; at = lower.indexOf(term, at + term.length)) {
    found.push({ start: at, end: at + term.length, term });
  }
  return found;
}

/** In order, the longer of those that overlap. */
function apart(matches: readonly Match[]): Match[] {
  const kept: Match[] = [];
  for (const match of [...matches].sort((one, other) => one.start - other.start || other.end - one.end)) {
    if (match.start >= (kept.at(-1)?.end ?? 0)) kept.push(match);
  }
  return kept;
}

/**
 * At most `most` characters of `text` around the place where most different matched words stand together, cut at the
 * ends of words, with the matched words marked. The text's beginning where none stands in it.
 */
export function snippet(text: string, terms: readonly string[], most: number): string {
  const matches = matchesIn(text, terms);
  const window = around(text, matches, most);
  let shown = window.start > 0 ? "…" : "";
  let at = window.start;
  for (const match of matches) {
    if (match.start < window.start || match.end > window.end) continue;
    shown += text.slice(at, match.start) + MARKS[0] + text.slice(match.start, match.end) + MARKS[1];
    at = match.end;
  }
  return shown + text.slice(at, window.end) + (window.end < text.length ? "…" : "");
}

/** The stretch that `snippet` shows. */
function around(text: string, matches: readonly Match[], most: number): Span {
  if (text.length <= most) return { start: 0, end: text.length };
  const first = densest(matches, most);
  if (!first) return atWords(text, { start: 0, end: most });
  const spare = most - (first.end - first.start);
  const start = Math.max(0, Math.min(first.start - Math.floor(spare / 3), text.length - most));
  return atWords(text, { start, end: Math.min(text.length, start + most) });
}

/** The stretch of at most `most` characters with most different terms, then most matches; the earliest of equals. */
function densest(matches: readonly Match[], most: number): Span | undefined {
  let best: (Span & { terms: number; count: number }) | undefined;
  for (const [at, from] of matches.entries()) {
    const terms = new Set<string>();
    let end = from.end;
    let count = 0;
    for (const match of matches.slice(at, at + 200)) {
      if (match.end - from.start > most) break;
      terms.add(match.term);
      [end, count] = [match.end, count + 1];
    }
    if (!best || terms.size > best.terms || (terms.size === best.terms && count > best.count)) {
      best = { start: from.start, end, terms: terms.size, count };
    }
  }
  return best;
}

/** Moves both ends inwards to where a word begins or ends, if one does near; never into a surrogate pair. */
function atWords(text: string, span: Span): Span {
  const near = Math.min(24, Math.floor((span.end - span.start) / 2));
  let { start, end } = span;
  if (start > 0 && !/\s/.test(text.charAt(start - 1))) {
    const space = text.slice(start, start + near).search(/\s/);
    if (space >= 0) start += space;
  }
  while (start > 0 && start < end && /[\s\uDC00-\uDFFF]/.test(text.charAt(start))) start += 1;
  if (end < text.length && !/\s/.test(text.charAt(end))) {
    const space = /\s\S*$/.exec(text.slice(end - near, end));
    if (space) end = end - near + space.index;
  }
  while (end > start && end < text.length && /[\s.,;:\uD800-\uDBFF]/.test(text.charAt(end - 1))) end -= 1;
  return { start, end };
}

/** At most `most` characters, cut at the end of a word where one is near. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const { end } = atWords(text, { start: 0, end: most - 1 });
  return `${text.slice(0, end)}…`;
}

/**
 * The words of Markdown in one line, to be shown: without what cannot be seen, fences, bullets, headings,
 * emphasis, tables, pictures and targets of links. For texts of a passage's size.
 */
export function plainLine(text: string): string {
  return text
    .replace(/[^\n\r\t]+/g, visible)
    .replace(/^[ \t]*(?:`{3,}|~{3,}).*$/gm, " ")
    .replace(/<\/?[a-z][\w-]*(?:\s[^<>]*)?>/gi, " ")
    .replace(/!?\[([^\]\n]*)\]\([^()\s]*(?:\s+"[^"\n]*")?\)/g, "$1")
    .replace(/^[ \t]*(?:[#>]+[ \t]+|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?)+/gm, "")
    .replace(/^[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*:?-*:?[ \t]*$/gm, " ")
    .replace(/^[ \t]*[-*_=]{3,}[ \t]*$/gm, " ")
    .replace(/\*\*(?=\S)(.*?\S)\*\*/g, "$1")
    .replace(/(?<![\w.])__(?=\S)(.*?\S)__(?![\w.])/g, "$1")
    .replace(/(?<![\w*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w*])/g, "$1")
    .replace(/`([^`\n]+)`/g, "$1")
    .replace(/\s+/g, " ")
    .trim();
}
