/**
 * A home of its own for a real daemon: nothing of the person who runs the tests is read or written, apart from the
 * cache of models, which is read only.
 */

import { execFile, spawn } from "node:child_process";
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";
import { promisify } from "node:util";

import { Connection } from "../../../src/core/connection";
import * as endpoint from "../../../src/core/endpoint";
import { launch } from "../../../src/core/launch";
import { Life } from "../../../src/core/life";
import type { State } from "../../../src/core/palace";
import { remainsOf } from "../../../src/core/remains";
import { realClock, type Clock } from "../../../src/core/timing";

export const REPOSITORY = path.resolve(import.meta.dirname, "../../../..");
export const TRANSCRIPTS = path.join(REPOSITORY, "tests", "data", "transcripts");
export const PYTHON = process.env.PALACE_TEST_PYTHON ?? path.join(REPOSITORY, ".venv", "bin", "python");
const MODELS = process.env.PALACE_MODELS ?? path.join(homedir(), ".cache", "palace", "models");
/** Variables that lead to a person's transcripts or settings, or to another daemon. */
const FOREIGN = /^(?:AMP|CLAUDE|CODEX|COPILOT|CURSOR|GEMINI|GOOSE|OPENCODE|PALACE|QWEN|XDG)_/;

export function requirePython(): void {
  try {
    accessSync(PYTHON, constants.X_OK);
  } catch {
    throw new Error(`these tests need a Python with palace-daemon: there is none at ${PYTHON}. Run \`make setup\` in ${REPOSITORY}, or set PALACE_TEST_PYTHON.`);
  }
}

/** Makes the home and lets this process see it, too: src/core reads the environment. */
export class Home {
  readonly directory = mkdtempSync("/tmp/pal-"); // short: a socket's path has 103 bytes at most
  readonly data = path.join(this.directory, "d");
  readonly #lives: Life[] = [];
  readonly #datas = new Set([this.data]);

  constructor() {
    requirePython();
    for (const name of Object.keys(process.env)) {
      if (FOREIGN.test(name)) Reflect.deleteProperty(process.env, name);
    }
    const run = path.join(this.directory, "r");
    mkdirSync(run, { mode: 0o700 });
    Object.assign(process.env, { HOME: this.directory, XDG_RUNTIME_DIR: run, PALACE_MODELS: MODELS });
  }

  commandLine(data = this.data): readonly string[] {
    this.#datas.add(data);
    return [PYTHON, "-m", "palace_daemon", "--data-dir", data];
  }

  /** Runs a command of the command line to its end, and returns what it printed. */
  async palaceDaemon(...given: string[]): Promise<string> {
    const [program = "", ...rest] = [...this.commandLine(), ...given];
    return (await promisify(execFile)(program, rest, { cwd: "/" })).stdout;
  }

  /** Runs a daemon in the foreground and returns once it takes connections, over TCP if that is wanted, too. */
  async serving(program: readonly string[] = this.commandLine(), isTcp = false): Promise<void> {
    const [first = "", ...rest] = [...program, "serve", ...(isTcp ? ["--tcp"] : [])];
    const child = spawn(first, rest, { cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
    await new Promise<void>((resolve, reject) => {
      child.once("error", reject).once("exit", (code) => {
        reject(new Error(`the daemon ended with ${String(code)}`));
      });
      child.stderr.setEncoding("utf8").on("data", (words: string) => {
        if (words.includes(isTcp ? "token in" : "listens on")) resolve();
      });
    });
  }

  /** As a window of the editor has it. */
  life(settings: { data?: string; mayStart?: boolean; clock?: Clock } = {}): Life {
    const data = settings.data ?? this.data;
    const made = new Life({
      dataDirectory: () => data,
      mayStart: () => settings.mayStart ?? true,
      connect: async (given) => await Connection.greet(await endpoint.connect(given)),
      launch: (given, signal) => launch({ commandLine: this.commandLine(given), signal }),
      remainsOf,
      clock: settings.clock ?? realClock,
      log: () => undefined,
    });
    this.#lives.push(made);
    return made;
  }

  /** Ends every connection and every daemon that was started here, and removes the home. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#lives) one.dispose();
    for (const data of this.#datas) {
      const [program, ...rest] = [...this.commandLine(data), "stop"];
      await promisify(execFile)(program, rest, { cwd: "/" }).catch(() => undefined);
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Real time, `times` as fast: for waits whose length is no matter of the test. */
export function fastClock(times: number): Clock {
  return { now: () => realClock.now() * times, after: (delayMs, then) => realClock.after(delayMs / times, then) };
}

/** Resolved with the state as soon as it is one of `kinds`; rejected when one of the others that last comes. */
export function stateOf(life: Life, ...kinds: State["kind"][]): Promise<State> {
  return new Promise((resolve, reject) => {
    const look = (state: State): void => {
      if (kinds.includes(state.kind)) resolve(state);
      else if (state.kind === "failed" || state.kind === "missing" || state.kind === "off") reject(new Error(`state ${JSON.stringify(state)}`));
      else return;
      listening.dispose();
    };
    const listening = life.onDidChangeState(look);
    if (kinds.includes(life.state.kind)) look(life.state);
  });
}
