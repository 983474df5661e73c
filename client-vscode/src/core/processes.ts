/** Running a program to its end: with a time limit, a way to end it with all that it started, and its words. */

import { spawn } from "node:child_process";

import { PalaceError } from "./errors";
import type { Environment } from "./places";

export interface Ran {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** Where it runs: never a workspace, whose files could change what a program does. */
  readonly cwd: string;
  readonly env?: Environment | undefined;
  /** Ends it, and all processes of its group; the promise is rejected with kind `cancelled`. */
  readonly signal?: AbortSignal | undefined;
  /** After this it is ended, and the promise is rejected with kind `deadline`; none where left out. */
  readonly limitMs?: number | undefined;
  /** Hears each whole line of standard output as it comes. */
  readonly onLine?: ((line: string) => void) | undefined;
}

export type Run = (command: readonly string[], options: RunOptions) => Promise<Ran>;

/** More than this is not kept of either stream: the end counts. */
const KEPT_CHARS = 64 * 1024;

/**
 * Runs `command` without a shell, with nothing on standard input.
 *
 * @throws PalaceError `notFound` where there is no such program, `cancelled`, `deadline`, or `internal` where the
 *   system refuses to run it.
 */
export const run: Run = (command, options) =>
  new Promise((resolve, reject) => {
    const [program = "", ...rest] = command;
    const { signal, limitMs, onLine } = options;
    if (signal?.aborted) {
      reject(withdrawn());
      return;
    }
    const child = spawn(program, rest, {
      cwd: options.cwd,
      env: { ...(options.env ?? process.env) },
      stdio: ["ignore", "pipe", "pipe"],
      detached: process.platform !== "win32", // a group of its own, which can be ended as a whole
      windowsHide: true,
    });
    let why: PalaceError | undefined;
    const end = (reason: PalaceError): void => {
      why ??= reason;
      if (child.pid !== undefined) endGroup(child.pid);
    };
    const withdraw = (): void => {
      end(withdrawn());
    };
    const timer =
      limitMs === undefined
        ? undefined
        : setTimeout(() => {
            end(new PalaceError(`${program} did not answer in ${limitMs / 1000} s`, "deadline"));
          }, limitMs);
    signal?.addEventListener("abort", withdraw, { once: true });
    const settled = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", withdraw);
    };
    const streams = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", lines(onLine));
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (part: string) => {
        streams[name] = (streams[name] + part).slice(-KEPT_CHARS);
      });
    }
    child.once("error", (error: NodeJS.ErrnoException) => {
      settled();
      reject(new PalaceError(error.code === "ENOENT" ? `there is no ${program}` : `cannot run ${program}: ${error.message}`, error.code === "ENOENT" ? "notFound" : "internal"));
    });
    child.once("close", (code) => {
      settled();
      if (why) reject(why);
      else resolve({ code, ...streams });
    });
  });

function withdrawn(): PalaceError {
  return new PalaceError("the request was withdrawn", "cancelled");
}

/** Ends a process that {@link run} started, and its children; one that is gone already is no failure. */
function endGroup(pid: number): void {
  if (process.platform === "win32") {
    spawn("taskkill", ["/pid", String(pid), "/t", "/f"], { stdio: "ignore", windowsHide: true }).once("error", () => undefined);
    return;
  }
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It ended by itself meanwhile.
  }
}

function lines(onLine: ((line: string) => void) | undefined): (part: string) => void {
  let rest = "";
  return (part) => {
    const parts = (rest + part).split(/\r?\n/);
    rest = (parts.pop() ?? "").slice(-KEPT_CHARS);
    for (const line of parts) onLine?.(line);
  };
}
