/** Forgetting in words: what would go, what went, and what is still to come. */

import { agentName } from "./agents";
import type { ForgetParams, ForgetResult, WireForgetItem } from "./protocol";
import { count, cut, dateAndTime, firstLine, lastName } from "./wording";

/** Titles that the last question names. */
const NAMED_MOST = 5;
/** What a line of the question holds. */
const NAMED_CHARS = 50;

/** What a person, a tree element or a document names; of several the narrowest counts. */
export interface Target {
  readonly exchangeId?: string;
  readonly sessionId?: string;
  readonly project?: string;
}

/** The selector for a target; undefined where it names nothing that can be forgotten. */
export function selectorOf(target: Target): ForgetParams | undefined {
  if (target.exchangeId) return { exchanges: [target.exchangeId] };
  if (target.sessionId) return { sessions: [target.sessionId] };
  return target.project ? { project: target.project } : undefined;
}

/** An exchange that would go, in one line. */
export function itemTitle(item: WireForgetItem): string {
  return firstLine(item.title) || "(no words)";
}

export function itemFacts(item: WireForgetItem): string {
  const project = item.project === "" ? "no project" : lastName(item.project);
  return [agentName(item.agent), project, dateAndTime(item.startedAt) || "no date"].join(" · ");
}

/**
 * What is forgotten once the person has chosen among the listed exchanges.
 *
 * Where all of them are listed, only what was shown goes, and nothing that came in between; where the list is cut, the
 * selector itself.
 */
export function finalSelector(asked: ForgetParams, listed: ForgetResult, kept: readonly WireForgetItem[]): ForgetParams {
  const isWhole = listed.exchanges === listed.items.length;
  return isWhole ? { exchanges: kept.map((one) => one.exchangeId) } : asked;
}

/** The last question before exchanges go for good, with the beginning of the list beneath. */
export function lastQuestion(exchanges: number, items: readonly WireForgetItem[], sourcesPending: number): { readonly question: string; readonly detail: string } {
  const [first] = items;
  const named = items.slice(0, NAMED_MOST).map((one) => `• ${cut(itemTitle(one), NAMED_CHARS)}`);
  if (exchanges > named.length) named.push(`• and ${count(exchanges - named.length, "other")}`);
  const detail = [
    exchanges === 1 ? (first ? itemFacts(first) : "") : named.join("\n"),
    "The transcript files stay as they are; Palace does not take this in from them again. It cannot be brought back.",
    pendingWords(sourcesPending),
  ];
  const what = exchanges === 1 && first ? `“${cut(itemTitle(first), NAMED_CHARS)}”` : count(exchanges, "exchange");
  return { question: `Forget ${what} for good?`, detail: detail.filter(Boolean).join("\n\n") };
}

/** What was forgotten, and what of it still stands somewhere. */
export function forgotWords(done: ForgetResult): string {
  const sentences = [`Palace forgot ${count(done.exchanges, "exchange")}.`];
  if (done.wipeDue) sentences.push(`Recall finds it no more, but bytes of it still stand in the database file (${done.wipeDue}). The daemon tries again by itself.`);
  sentences.push(pendingWords(done.sourcesPending));
  return sentences.filter(Boolean).join(" ");
}

function pendingWords(files: number): string {
  if (files === 0) return "";
  return `${count(files, "file")} ${files === 1 ? "is" : "are"} still to be read and may hold more of it: forget once more when ${files === 1 ? "it is" : "they are"}.`;
}
