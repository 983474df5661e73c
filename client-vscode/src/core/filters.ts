/**
 * Filters that are typed into the question: `project:atlas agent:codex since:2026-03-01 why did we ...`.
 *
 * What is no filter stays in the question, verbatim: `std::vector`, `C:\`, `12:30`, `https://...`, `TODO: x`. So does
 * what stands in double quotes. A filter whose value is not there yet, or not whole, filters nothing and says so.
 */

import { agentName, AGENTS } from "./agents";
import { daysBefore, plainDate } from "./days";
import type { Project } from "./project";
import type { RecallParams } from "./protocol";
import { lastName, withOffset } from "./wording";

export type Place = "all" | "project";
export type Span = "any" | "month" | "today" | "week";

/** What the buttons choose; what is typed goes before it. */
export interface Scope {
  readonly place: Place;
  /** As the daemon names it; empty for every agent. */
  readonly agent: string;
  readonly span: Span;
}

export interface Filters {
  readonly place?: Place;
  readonly project?: string;
  readonly agent?: string;
  readonly session?: string;
  readonly since?: string;
  readonly until?: string;
}

export interface ReadInput {
  /** What is left as the question, verbatim but for the white space around it. */
  readonly query: string;
  readonly filters: Filters;
  /** A sentence for each filter that does nothing yet. */
  readonly hints: readonly string[];
}

/** The spans in the order in which they are offered; days count today. */
export const SPANS: readonly { readonly span: Span; readonly name: string; readonly days: number | undefined }[] = [
  { span: "any", name: "Any time", days: undefined },
  { span: "today", name: "Today", days: 1 },
  { span: "week", name: "Last 7 days", days: 7 },
  { span: "month", name: "Last 30 days", days: 30 },
];

const FILTER = /(project|agent|session|since|until|in):(?!:)(?:"([^"]*)("?)|([^\s"]*))(?=\s|$)/iy;
const A_PART_OF_A_DATE = /^\d{1,4}(-(\d{1,2}(-\d{0,2})?)?)?$/;
const WORDS_FOR_DAYS: Readonly<Record<string, number>> = { today: 0, yesterday: 1 };
/** The daemon knows no time before 1970 in UTC. */
const EARLIEST = new Date(1970, 0, 2);
const DAYS_OF: Readonly<Record<string, number>> = { d: 1, w: 7, m: 30 };

type Reading = { readonly filters: Filters } | { readonly hint: string } | undefined;

/** Reads what was typed at `now`. `knownAgents` are those that have sessions, where that is known. */
export function readInput(value: string, now: Date, knownAgents: readonly string[] = []): ReadInput {
  let filters: Filters = {};
  const hints: string[] = [];
  let query = "";
  let at = 0;
  while (at < value.length) {
    const end = wordEnd(value, at);
    FILTER.lastIndex = at;
    const match = FILTER.exec(value);
    const reading = match ? readFilter(match, value.length, now, knownAgents) : undefined;
    if (match && reading) {
      if ("hint" in reading) hints.push(reading.hint);
      else filters = { ...filters, ...reading.filters };
      at += match[0].length;
      while (/\s/.test(value.charAt(at))) at += 1;
      continue;
    }
    query += value.slice(at, end);
    at = end;
  }
  return { query: query.trim(), filters, hints };
}

/** The end of the word or quotation that begins at `start`, with the white space behind it. */
function wordEnd(value: string, start: number): number {
  const closing = value.startsWith('"', start) ? value.indexOf('"', start + 1) : -1;
  let end = closing < 0 ? start : closing + 1;
  while (end < value.length && !/\s/.test(value.charAt(end))) end += 1;
  while (end < value.length && /\s/.test(value.charAt(end))) end += 1;
  return end;
}

/** Returns nothing for what is no filter but somebody's words. */
function readFilter(match: RegExpExecArray, length: number, now: Date, knownAgents: readonly string[]): Reading {
  const name = (match[1] ?? "").toLowerCase();
  const isQuoted = match[2] !== undefined;
  const given = (match[2] ?? match[4] ?? "").trim();
  const isLast = match.index + match[0].length === length;
  const isOpen = isQuoted && match[3] === "";
  if (isOpen && !isLast) return undefined;
  if (!given || isOpen) return isLast ? { hint: hintFor(name) } : undefined; // "project: x" is what YAML looks like
  switch (name) {
    case "in":
      return readPlace(given.toLowerCase(), isLast);
    case "agent":
      return readAgent(given.toLowerCase(), isLast, knownAgents);
    case "since":
    case "until":
      return readDate(name, given, isLast, now);
    default:
      return { filters: { [name]: given } };
  }
}

function hintFor(name: string): string {
  const examples: Readonly<Record<string, string>> = {
    project: "project: takes a project's name or path",
    agent: "agent: takes an agent, for example agent:codex",
    session: "session: takes the id of a session",
    since: "since: takes a date, for example since:2026-03-01, since:yesterday or since:14d",
    until: "until: takes a date, for example until:2026-03-31 or until:yesterday",
    in: "in: takes project or all",
  };
  return examples[name] ?? "";
}

function readPlace(given: string, isLast: boolean): Reading {
  if (given === "project" || given === "all") return { filters: { place: given } };
  return isLast && ("project".startsWith(given) || "all".startsWith(given)) ? { hint: hintFor("in") } : undefined;
}

function readAgent(given: string, isLast: boolean, known: readonly string[]): Reading {
  if (known.includes(given) || AGENTS.includes(given)) return { filters: { agent: given } };
  const beginning = (all: readonly string[]): string[] => all.filter((agent) => agent.startsWith(given));
  const meant = beginning(known).length ? beginning(known) : beginning(AGENTS);
  const [only] = meant;
  if (!isLast && only !== undefined && meant.length === 1) return { filters: { agent: only } };
  if (only !== undefined) return { hint: `agent:${given} is not whole yet: ${meant.join(", ")}` };
  // The daemon refuses a name that it does not know, and with it the whole question.
  return { hint: `There is no agent ${given}${known.length ? `; those with sessions are ${known.join(", ")}` : ""}` };
}

function readDate(name: "since" | "until", given: string, isLast: boolean, now: Date): Reading {
  const date = dateOf(given.toLowerCase(), name, now) ?? (isTime(given) ? given.toUpperCase() : undefined);
  if (date !== undefined) return { filters: { [name]: date } };
  const isBegun = isLast && Object.keys(WORDS_FOR_DAYS).some((word) => word.startsWith(given.toLowerCase()));
  return isBegun || A_PART_OF_A_DATE.test(given) ? { hint: hintFor(name) } : undefined;
}

/** Reads a date, month, year, `yesterday` or `14d`; of a month or year, `until` takes the last day. */
function dateOf(given: string, name: "since" | "until", now: Date): string | undefined {
  const ago = WORDS_FOR_DAYS[given] ?? daysAgo(given);
  if (ago !== undefined) return plainDate(new Date(Math.max(daysBefore(now, ago).getTime(), EARLIEST.getTime())));
  const match = /^(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?$/.exec(given);
  if (!match) return undefined;
  const [year, month, day] = [Number(match[1]), Number(match[2] ?? 0), Number(match[3] ?? 0)];
  if (year < 1970 || (match[2] !== undefined && (month < 1 || month > 12))) return undefined;
  if (day) return plainDate(new Date(year, month - 1, day)) === given ? given : undefined;
  if (match[3] !== undefined) return undefined;
  if (name === "since") return plainDate(new Date(Math.max(new Date(year, (month || 1) - 1, 1).getTime(), EARLIEST.getTime())));
  return plainDate(new Date(year, month || 12, 0));
}

function daysAgo(given: string): number | undefined {
  const match = /^(\d{1,4})([dwm])$/.exec(given);
  return match ? Number(match[1]) * (DAYS_OF[match[2] ?? "d"] ?? 1) : undefined;
}

function isTime(given: string): boolean {
  return /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/i.test(given) && !Number.isNaN(Date.parse(given));
}

/** What is asked, and in words where. */
export interface Asked {
  readonly params: RecallParams;
  /** For a title: `in atlas · Codex · last 7 days`. */
  readonly where: string;
  /** The project's path or name that narrows it, if one does. */
  readonly project: string | undefined;
  /** Whether anything narrows it. */
  readonly isNarrowed: boolean;
}

/** What the window adds to what was typed. */
export interface Around {
  /** The window's project, where a folder is open. */
  readonly project: Project | undefined;
  readonly now: Date;
  readonly limit: number;
}

/** Puts together what was typed and what the buttons say: what was typed goes first. */
export function toAsk(input: ReadInput, scope: Scope, around: Around): Asked {
  const { filters } = input;
  const isOwn = (filters.place ?? scope.place) === "project" && filters.project === undefined;
  const project = filters.project ?? (isOwn ? around.project?.path : undefined);
  const agent = filters.agent ?? scope.agent;
  const isDated = filters.since !== undefined || filters.until !== undefined;
  const since = filters.since ?? (isDated ? undefined : sinceOf(scope.span, around.now));
  const params: RecallParams = {
    query: input.query,
    limit: around.limit,
    groupByExchange: true, // a long exchange has many passages, and one row is enough to open it
    now: withOffset(around.now),
    ...(project === undefined ? {} : { project }),
    ...(agent ? { agent } : {}),
    ...(filters.session === undefined ? {} : { session: filters.session }),
    ...(since === undefined ? {} : { since }),
    ...(filters.until === undefined ? {} : { until: filters.until }),
  };
  const words = [
    project === undefined ? "in all projects" : `in ${isOwn ? (around.project?.name ?? "") : lastName(project)}`,
    agent ? agentName(agent) : "",
    filters.session === undefined ? "" : `session ${filters.session.slice(0, 8)}`,
    isDated ? datesInWords(filters) : scope.span === "any" ? "" : spanName(scope.span).toLowerCase(),
  ];
  const isNarrowed = project !== undefined || Boolean(agent) || since !== undefined || isDated || filters.session !== undefined;
  return { params, where: words.filter(Boolean).join(" · "), project, isNarrowed };
}

/** `Last 7 days`. */
export function spanName(span: Span): string {
  return SPANS.find((one) => one.span === span)?.name ?? "";
}

function sinceOf(span: Span, now: Date): string | undefined {
  const days = SPANS.find((one) => one.span === span)?.days;
  return days === undefined ? undefined : plainDate(daysBefore(now, days - 1));
}

function datesInWords(filters: Filters): string {
  const since = filters.since === undefined ? "" : `since ${filters.since}`;
  return [since, filters.until === undefined ? "" : `until ${filters.until}`].filter(Boolean).join(" ");
}
