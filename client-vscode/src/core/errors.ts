/** What can go wrong between the editor and the daemon. */

import type { ErrorData } from "./protocol";

/** The daemon's answer to a request that it could not carry out, or words of our own in the same form. */
export class PalaceError extends Error {
  override readonly name = "PalaceError";

  constructor(
    message: string,
    /** A stable word, as in the daemon's docs/protocol.md; of our own: `notRunning`, `disconnected`, `foreign`. */
    readonly kind: string,
    /** What to do, where there is something. */
    readonly hint = "",
  ) {
    super(message);
  }

  /** The error of an answer, whose message has the hint in parentheses at its end. */
  static from(message: string, data: Partial<ErrorData> | undefined): PalaceError {
    const hint = data?.hint ?? "";
    const end = ` (${hint})`;
    return new PalaceError(message.endsWith(end) ? message.slice(0, -end.length) : message, data?.kind ?? "internal", hint);
  }
}

/** Whether the caller itself withdrew the request: nothing to tell anybody. */
export function isCancelled(error: unknown): boolean {
  return error instanceof PalaceError ? error.kind === "cancelled" : error instanceof Error && error.name === "AbortError";
}

/**
 * The error in one or two sentences for a person, with what to do.
 *
 * The editor makes links of `[text](target)` in a message, and some run commands: what an error quotes, the name of a
 * project for instance, must make none.
 */
export function inWords(error: unknown): string {
  if (error instanceof PalaceError && error.hint) return `${sentence(error.message)} ${sentence(error.hint)}`;
  return sentence(error instanceof Error ? error.message : String(error));
}

function sentence(text: string): string {
  const trimmed = text.trim();
  const begun = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  const whole = /[.!?…]$/.test(begun) ? begun : `${begun}.`;
  return whole.replaceAll("](", "] (");
}
