/** A palace that answers as a test says, and tells what it was asked. */

import { command } from "./fakeVscode";

import { PalaceError } from "../../../src/core/errors";
import type { Palace, State } from "../../../src/core/palace";
import type { Settings } from "../../../src/ui/settings";
import type { Parts } from "../../../src/ui/parts";

export interface FakeRequest {
  readonly method: string;
  readonly params: Record<string, unknown>;
  readonly signal: AbortSignal | undefined;
  answer(result: unknown): void;
  fail(error: unknown): void;
}

export class FakePalace {
  state: State = { kind: "ready", version: "0.1.0", dataDirectory: "/data" };
  readonly requests: FakeRequest[] = [];
  /** Methods with an entry are answered by themselves; others wait for the test. */
  readonly answers = new Map<string, (params: Record<string, unknown>) => unknown>();
  readonly #states = new Set<(state: State) => void>();
  readonly #events = new Map<string, Set<(told: unknown) => void>>();
  restarts = 0;

  request(method: string, params: Record<string, unknown>, options: { signal?: AbortSignal } = {}): Promise<unknown> {
    const known = this.answers.get(method);
    return new Promise((answer, fail) => {
      this.requests.push({ method, params, signal: options.signal, answer, fail });
      options.signal?.addEventListener("abort", () => {
        fail(new PalaceError("the request was withdrawn", "cancelled"));
      });
      if (!known) return;
      try {
        answer(known(params));
      } catch (error) {
        fail(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }
  onDidChangeState(listener: (state: State) => void): { dispose(): void } {
    this.#states.add(listener);
    return { dispose: () => this.#states.delete(listener) };
  }
  on(event: string, listener: (told: unknown) => void): { dispose(): void } {
    const listeners = this.#events.get(event) ?? new Set();
    this.#events.set(event, listeners.add(listener));
    return { dispose: () => listeners.delete(listener) };
  }
  restart(): Promise<void> {
    this.restarts += 1;
    return Promise.resolve();
  }

  become(state: State): void {
    this.state = state;
    for (const listener of this.#states) listener(state);
  }
  tell(event: string, told: unknown): void {
    for (const listener of this.#events.get(event) ?? []) listener(told);
  }
  /** Requests of one method, oldest first. */
  asked(method: string): FakeRequest[] {
    return this.requests.filter((one) => one.method === method);
  }
  get listenerCount(): number {
    return this.#states.size + [...this.#events.values()].reduce((sum, one) => sum + one.size, 0);
  }
}

/** Parts around a fake palace; `delayMs` is 0, so that a typed question is asked at the next turn. */
export function partsWith(palace: FakePalace, settings: { recall?: Partial<Settings["recall"]> } = {}): Parts {
  const silent = (): void => undefined;
  return {
    palace: palace as unknown as Palace,
    log: { trace: silent, debug: silent, info: silent, warn: silent, error: silent } as unknown as Parts["log"],
    settings: () => ({
      python: "",
      dataDirectory: "",
      startDaemon: true,
      statusBar: true,
      sessionsLimit: 200,
      recall: { scope: "all", limit: 20, delayMs: 0, ...settings.recall },
    }),
    context: { subscriptions: [] } as unknown as Parts["context"],
    command,
    commandLine: () => Promise.resolve(["python", "-m", "palace_daemon"]),
  };
}
