/** Running a program to its end: with a time limit, a way to end it with all that it started, and its words. */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import * as path from "node:path";
import type { Readable } from "node:stream";

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

/** How long what a program left behind may hold its output after it ended itself. */
const HELD_MS = 2_000;

/**
 * Runs `command` without a shell, with nothing on standard input.
 *
 * @throws PalaceError `notFound` where there is no such program, `cancelled`, `deadline`, or `internal` where the
 *   system refuses to run it.
 */
export const run: Run = (command, options) =>
  new Promise((resolve, reject) => {
    const { signal, limitMs, onLine } = options;
    if (signal?.aborted) {
      reject(withdrawn());
      return;
    }
    const [program = ""] = command;
    const child = started(command, options);
    let why: PalaceError | undefined;
    const end = (reason: PalaceError): void => {
      why ??= reason;
      if (child.pid !== undefined) endGroup(child.pid);
    };
    const withdraw = (): void => {
      end(withdrawn());
    };
    const late = (): void => {
      end(new PalaceError(`${program} did not answer in ${(limitMs ?? 0) / 1000} s`, "deadline"));
    };
    const limit = limitMs === undefined ? undefined : setTimeout(late, limitMs);
    let held: NodeJS.Timeout | undefined;
    signal?.addEventListener("abort", withdraw, { once: true });
    const settled = (): void => {
      clearTimeout(limit);
      clearTimeout(held);
      signal?.removeEventListener("abort", withdraw);
    };
    const streams = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", lines(onLine));
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (part: string) => {
        streams[name] = (streams[name] + part).slice(-KEPT_CHARS);
      });
    }
    child.once("error", (error) => {
      settled();
      reject(refused(program, error));
    });
    const over = (code: number | null): void => {
      // For a promise that is settled already, the second time says nothing.
      settled();
      child.stdout.destroy();
      child.stderr.destroy();
      if (why) reject(why);
      else resolve({ code, ...streams });
    };
    child.once("exit", (code) => {
      // After a turn of the loop, in which what is still to be read is read: it may have been held up for that long.
      held = setTimeout(() => setImmediate(over, code), HELD_MS);
    });
    child.once("close", over);
  });

/** @throws PalaceError where the system refuses at once: for some reasons Node throws, and tells of the others later. */
function started([program = "", ...rest]: readonly string[], { cwd, env }: RunOptions): ChildProcessByStdio<null, Readable, Readable> {
  try {
    return spawn(program, rest, {
      cwd,
      env: { ...(env ?? process.env) },
      stdio: ["ignore", "pipe", "pipe"],
      detached: process.platform !== "win32", // a group of its own, which can be ended as a whole
      windowsHide: true,
    });
  } catch (error) {
    throw refused(program, error as NodeJS.ErrnoException);
  }
}

function refused(program: string, error: NodeJS.ErrnoException): PalaceError {
  const isAbsent = error.code === "ENOENT";
  return new PalaceError(isAbsent ? `there is no ${program}` : `cannot run ${program}: ${error.message}`, isAbsent ? "notFound" : "internal");
}

function withdrawn(): PalaceError {
  return new PalaceError("the request was withdrawn", "cancelled");
}

/** Ends a process that {@link run} started, and its children; one that is gone already is no failure. */
function endGroup(pid: number): void {
  if (process.platform === "win32") {
    // By its whole path: a name alone is looked for in the working directory first.
    const taskkill = path.join(process.env.SystemRoot ?? "C:\\Windows", "System32", "taskkill.exe");
    spawn(taskkill, ["/pid", String(pid), "/t", "/f"], { stdio: "ignore", windowsHide: true }).once("error", () => undefined);
    return;
  }
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It ended by itself meanwhile.
  }
}

/** Whether there is such a process, whoever's it is. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0); // asks only whether there is one
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The root of the file system that a program lies in: Python puts the working directory on its import path. */
export function rootOf(command: readonly string[]): string {
  return path.parse(command[0] ?? "").root || "/";
}

function lines(onLine: ((line: string) => void) | undefined): (part: string) => void {
  let rest = "";
  return (part) => {
    const parts = (rest + part).split(/\r?\n/);
    rest = (parts.pop() ?? "").slice(-KEPT_CHARS);
    for (const line of parts) onLine?.(line);
  };
}
