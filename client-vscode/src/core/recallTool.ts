/** The tool `palace_recall`: checks what a language model gave, asks the daemon, and answers in words it can act on. */

import { estimatedTokens, recalled } from "./chatBlock";
import { inWords, isCancelled, PalaceError } from "./errors";
import type { Palace } from "./palace";
import type { RecallParams } from "./protocol";
import { lastName, withOffset } from "./wording";

/** Room for five whole passages with their headings, in estimated tokens; what a chat gives may be less. */
export const ANSWER_TOKENS = 4_000;
/** After this a model is told to go on without: a chat must not hang on a daemon that does not come up. */
const LIMIT_MS = 60_000;
const LIMIT_DEFAULT = 5;
const LIMIT_MAX = 20;
const NAMES = ["query", "project", "agent", "since", "until", "limit"] as const;
const DATE = /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?$/;
/** How often an answer is made shorter where the model's own count says that it is too long. */
const TRIES = 3;

/** How much a chat takes, and its own way to count; a chat that says nothing takes {@link ANSWER_TOKENS}. */
export interface Room {
  readonly tokenBudget: number;
  readonly countTokens: (text: string) => PromiseLike<number>;
}

/** What goes with a question: when to give up, and how much to answer. */
export interface Around {
  readonly signal: AbortSignal;
  readonly room?: Room | undefined;
  /** The caller's clock. */
  readonly now: Date;
  readonly limitMs?: number;
}

type Checked = Pick<RecallParams, "query" | "project" | "agent" | "since" | "until"> & { readonly limit: number };

/**
 * What a model gave, as parameters of `palace/recall`.
 *
 * Null and empty stand for left out: models write both.
 *
 * @throws PalaceError `params`, whose words tell the model which field is wrong and what it takes.
 */
export function checkedInput(given: unknown): Checked {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw wrong(`it takes an object with ${NAMES.join(", ")}`);
  }
  const input = given as Readonly<Record<string, unknown>>;
  const unknown = Object.keys(input).filter((name) => !(NAMES as readonly string[]).includes(name));
  if (unknown.length > 0) throw wrong(`there is no ${unknown.join(", ")}; it takes ${NAMES.join(", ")}`);
  const query = text(input, "query");
  if (!query) throw wrong("query must say what you want to know, in plain words");
  const project = text(input, "project");
  if (/^[.~]/.test(project)) throw wrong("project must be an absolute path or the last name of a project");
  const agent = text(input, "agent");
  const [since, until] = [date(input, "since"), date(input, "until")];
  return {
    query,
    limit: count(input.limit),
    ...(project && { project }),
    ...(agent && { agent }),
    ...(since && { since }),
    ...(until && { until }),
  };
}

/**
 * Answers a model: with quoted history, or with what went wrong and what to do.
 *
 * @throws PalaceError `cancelled`, and nothing else.
 */
export async function answer(palace: Pick<Palace, "request">, given: unknown, around: Around): Promise<string> {
  const late = AbortSignal.timeout(around.limitMs ?? LIMIT_MS);
  try {
    const asked = checkedInput(given);
    const maxTokens = Math.max(1, Math.min(around.room?.tokenBudget ?? ANSWER_TOKENS, ANSWER_TOKENS));
    const result = await palace.request(
      "palace/recall",
      { ...asked, maxTokens: Math.floor(maxTokens), now: withOffset(around.now) },
      { signal: AbortSignal.any([around.signal, late]) },
    );
    return await fitted((tokens) => recalled(result, asked, tokens), maxTokens, around.room);
  } catch (error) {
    if (around.signal.aborted) throw new PalaceError("the request was withdrawn", "cancelled");
    if (error instanceof PalaceError && error.kind === "params") return inWords(error);
    const reason = isCancelled(error) && late.aborted ? "the daemon did not answer in time" : inWords(error);
    return `Nothing was searched. ${inWords(new Error(reason))} Go on without it, and tell the person that the command "Palace: Show Status" says more.`;
  }
}

/** What a person sees while the tool runs. */
export function whileSearching(given: unknown): string {
  const { project } = given && typeof given === "object" ? (given as { project?: unknown }) : {};
  const name = typeof project === "string" ? lastName(project) : "";
  // The message is Markdown, and the name comes from a model.
  return name && /^[\w. -]{1,60}$/.test(name) ? `Searching earlier sessions of ${name}` : "Searching earlier sessions";
}

/** Shortens until the model's own count agrees: our estimate is of words, and code takes more tokens. */
async function fitted(make: (tokens: number) => string, maxTokens: number, room: Room | undefined): Promise<string> {
  let text = make(maxTokens);
  if (!room) return text;
  let tokens = maxTokens;
  for (let tried = 0; tried < TRIES; tried++) {
    const counted = await counting(room, text);
    if (counted <= room.tokenBudget) break;
    tokens = Math.floor((Math.min(tokens, estimatedTokens(text)) * room.tokenBudget * 0.95) / counted);
    text = make(Math.max(1, tokens));
  }
  return text;
}

/** A count that fails must not cost the answer: our own estimate stands then. */
async function counting(room: Room, text: string): Promise<number> {
  try {
    return await room.countTokens(text);
  } catch {
    return 0;
  }
}

function text(input: Readonly<Record<string, unknown>>, name: string): string {
  const value = input[name] ?? "";
  if (typeof value !== "string") throw wrong(`${name} must be a string`);
  return value.trim();
}

function date(input: Readonly<Record<string, unknown>>, name: string): string {
  const value = text(input, name);
  if (value && (!DATE.test(value) || Number.isNaN(Date.parse(value)))) {
    throw wrong(`${name} must be a date as YYYY-MM-DD`);
  }
  return value;
}

function count(value: unknown): number {
  const limit = value ?? LIMIT_DEFAULT;
  if (typeof limit !== "number" || !Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) {
    throw wrong(`limit must be a whole number from 1 to ${LIMIT_MAX}`);
  }
  return limit;
}

function wrong(what: string): PalaceError {
  return new PalaceError(`the input of palace_recall is wrong: ${what}`, "params", "call it again with that put right");
}
