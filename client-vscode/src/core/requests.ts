/** Which requests may be asked again when the daemon went away before it answered, and how not to wait for one. */

import type { MethodName, Params } from "./connection";
import { PalaceError } from "./errors";

const READS: ReadonlySet<MethodName> = new Set([
  "palace/hello",
  "palace/recall",
  "palace/get",
  "palace/sessions",
  "palace/projects",
  "palace/sources",
  "palace/status",
]);

/** Whether asking twice changes nothing. */
export function isRead<M extends MethodName>(method: M, params: Params<M>): boolean {
  if (READS.has(method)) return true;
  const given = params as { action?: unknown; use?: unknown; dryRun?: unknown };
  if (method === "palace/notes") return (given.action ?? "list") === "list";
  if (method === "palace/models") return given.use === undefined;
  return method === "palace/forget" && given.dryRun === true;
}

/** Whether the daemon went away, or was about to. */
export function isLost(error: unknown): error is PalaceError {
  return error instanceof PalaceError && (error.kind === "disconnected" || error.kind === "closed");
}

/** The error for something that would have changed the store. */
export function lostWrite(): PalaceError {
  return new PalaceError(
    "the daemon went away before it answered, so this may or may not have been done",
    "disconnected",
    "look when the daemon is back, and do it again if need be",
  );
}

/** `asked`, or a rejection as soon as `signal` is aborted: a daemon that hangs must not hold up who waits no more. */
export function unless<T>(signal: AbortSignal | undefined, asked: Promise<T>): Promise<T> {
  if (!signal) return asked;
  return new Promise((resolve, reject) => {
    const withdraw = (): void => {
      reject(new PalaceError("the request was withdrawn", "cancelled"));
    };
    signal.addEventListener("abort", withdraw, { once: true });
    if (signal.aborted) withdraw();
    asked.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", withdraw);
    });
  });
}
