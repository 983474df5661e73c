/** An answer as rows of a list, in the daemon's order. */

import { agentIcon, agentName, NOTE } from "./agents";
import type { RecallResult, WireFreshness, WireHit } from "./protocol";
import { plainLine, shortened, snippet } from "./snippet";
import { ago, beginning, count, dayHeading, lastName, number, plainLabel, timeOfDay } from "./wording";

/** What fits beside the description in the editor's list, which is about 90 characters wide. */
const LABEL_CHARS = 56;
const DETAIL_CHARS = 90;
const MARKED_TERMS_MAX = 12;
/** Of a line of megabytes no more than this is looked at. */
const LINE_CHARS_MAX = 2_000;

export interface SeparatorRow {
  readonly kind: "separator";
  readonly label: string;
}

export interface HitRow {
  readonly kind: "hit";
  readonly label: string;
  readonly description: string;
  readonly detail: string;
  /** One of the editor's icons. */
  readonly icon: string;
  readonly hit: WireHit;
}

export interface Shown {
  readonly query: string;
  readonly now: Date;
  /** Whether only one project is looked at, which then need not stand on each row. */
  readonly isOneProject: boolean;
}

/**
 * One row for each hit, in order, and a separator wherever the group changes. Separators never move a hit.
 *
 * With no question the daemon lists the newest first: groups are days, and rows have the time of day. With one it lists
 * the best first: runs of the same project are groups, where they are long enough to save more words than they cost. The
 * editor writes a separator at the right of its first row, so it has to be short.
 */
export function hitRows(result: RecallResult, shown: Shown): (HitRow | SeparatorRow)[] {
  const rows: (HitRow | SeparatorRow)[] = [];
  const groups = result.hits.map((hit) => (shown.query ? hit.project : dayHeading(hit.startedAt, shown.now)));
  const runs = groups.filter((group, at) => at === 0 || group !== groups[at - 1]).length;
  const isGrouped = !shown.query || (!shown.isOneProject && new Set(groups).size > 1 && runs * 2 <= groups.length);
  for (const [at, hit] of result.hits.entries()) {
    const group = groups[at] ?? "";
    if (isGrouped && (at === 0 || group !== groups[at - 1])) {
      rows.push({ kind: "separator", label: plainLabel(shown.query ? projectName(group) : group) });
    }
    rows.push(hitRow(hit, shown, Boolean(shown.query) && isGrouped));
  }
  return rows;
}

function projectName(project: string): string {
  return project ? lastName(project) : "no project";
}

/** How much was looked at, for the title: `words in 81 of 4,310 passages · 3 files still to read`. */
export function lookedAt(result: RecallResult, query: string): string {
  const { inScope, matched } = result.totals;
  const found = query ? `words in ${number(matched)} of ${count(inScope, "passage")}` : count(inScope, "passage");
  return [found, ...missing(result.freshness, query)].join(" · ");
}

/** What an answer does not take into account yet. */
export function missing(freshness: WireFreshness, query: string): string[] {
  return [
    freshness.sourcesPending ? `${count(freshness.sourcesPending, "file")} still to read` : "",
    query && !freshness.vectorsUsed && freshness.drawers ? "by words only" : "",
    query && freshness.vectorsUsed && freshness.vectorsPending ? `${count(freshness.vectorsPending, "text")} still to embed` : "",
  ].filter(Boolean);
}

function hitRow(hit: WireHit, shown: Shown, isUnderProject: boolean): HitRow {
  const { asked, reply } = turns(hit.text);
  // Of a whole paragraph as the question nearly every word would be marked.
  const terms = hit.matchedTerms.length > MARKED_TERMS_MAX ? [] : hit.matchedTerms;
  return {
    kind: "hit",
    label: plainLabel(labelOf(asked, hit)),
    description: plainLabel(describe(hit, shown, isUnderProject || shown.isOneProject)),
    detail: plainLabel(detailOf(asked, reply, terms)),
    icon: agentIcon(hit.agent),
    hit,
  };
}

/** A drawer's two sides: the daemon puts what the person said first, as a quotation. */
export function turns(text: string): { asked: string; reply: string } {
  const lines = text.split("\n");
  const found = lines.findIndex((line) => !line.startsWith(">"));
  const end = found < 0 ? lines.length : found;
  const asked = lines.slice(0, end).map((line) => line.replace(/^> ?/, ""));
  return { asked: asked.join("\n"), reply: lines.slice(end).join("\n").trim() };
}

/** What the person asked, in one line: a fence at the beginning and what Markdown adds is left out. */
export function askedLine(asked: string, most: number): string {
  for (const line of asked.split("\n")) {
    const plain = plainLine(beginning(line, LINE_CHARS_MAX));
    if (/[\p{L}\p{N}]/u.test(plain)) return shortened(plain, most);
  }
  return "";
}

function labelOf(asked: string, hit: WireHit): string {
  return askedLine(asked, LABEL_CHARS) || shortened(plainLine(hit.sessionTitle), LABEL_CHARS) || "(no words)";
}

function describe(hit: WireHit, shown: Shown, isProjectKnown: boolean): string {
  return [
    isProjectKnown ? "" : projectName(hit.project),
    agentName(hit.agent),
    shown.query ? ago(hit.startedAt, shown.now) || "no date" : timeOfDay(hit.startedAt),
    shown.query && !hit.matchedTerms.length ? "by meaning" : "",
    repeated(hit),
  ]
    .filter(Boolean)
    .join(" · ");
}

/** `also in 3 sessions`, or that it was said again in its own. */
function repeated(hit: WireHit): string {
  if (!hit.alsoInCount) return "";
  const others = new Set(hit.alsoIn.map((one) => one.sessionId));
  others.delete(hit.sessionId);
  if (!others.size) return `said ${number(hit.alsoInCount + 1)} times`;
  return `also in ${number(others.size)}${hit.alsoInCount > hit.alsoIn.length ? " or more" : ""} ${others.size === 1 ? "session" : "sessions"}`;
}

/** The passage of the reply in which the matched words stand; of a note, or where only the rest of the turn has them, of that. */
function detailOf(asked: string, reply: string, terms: readonly string[]): string {
  const [turn, answer] = [plainLine(asked), plainLine(reply)];
  const shown = answer ? snippet(answer, terms, DETAIL_CHARS) : "";
  const isLong = turn.length > LABEL_CHARS;
  if (shown.includes("«") || !isLong) return shown;
  const said = snippet(turn, terms, DETAIL_CHARS);
  return !shown || (said.includes("«") && said.startsWith("…")) ? said : shown;
}

export interface ScorePart {
  readonly name: string;
  readonly value: number;
  readonly meaning: string;
}

const MEANINGS: Readonly<Record<string, string>> = {
  cosine: "Meaning of the question and of the passage",
  bm25: "Words of the question in the passage, the rare ones counting most",
  statement: "Best sentence that you said in this exchange",
  sentence: "Words of the question together in one sentence",
  wish: "A standing preference, rule or instruction",
  date: "The date in the question",
};

/** The parts of a hit's score, the largest first; they add up to it. */
export function scoreParts(hit: WireHit): ScorePart[] {
  return Object.entries(hit.parts)
    .map(([name, value]) => ({ name, value, meaning: MEANINGS[name] ?? "" }))
    .sort((one, other) => other.value - one.value);
}

/** Whether it is a text that somebody asked to remember: it has no transcript. */
export function isNote(agent: string): boolean {
  return agent === NOTE;
}
