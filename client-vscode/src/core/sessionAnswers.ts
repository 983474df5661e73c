/** The answers to `palace/sessions`, which lists sessions, or the exchanges of one. */

import type { Answer } from "./connection";
import type { WireExchange, WireSession } from "./protocol";

/** The sessions of an answer to a request for a list. */
export function sessionsOf(answer: Answer<"palace/sessions">): readonly WireSession[] {
  return "sessions" in answer ? answer.sessions : [];
}

/** The exchanges of an answer to a request for one session. */
export function exchangesOf(answer: Answer<"palace/sessions">): readonly WireExchange[] {
  return "exchanges" in answer ? answer.exchanges : [];
}
