/** Time that goes on only when a test says so. */

import type { Clock } from "../../../src/core/timing";

export class FakeClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ readonly atMs: number; readonly then: () => void }>();

  now(): number {
    return this.#nowMs;
  }

  after(delayMs: number, then: () => void): { dispose(): void } {
    const timer = { atMs: this.#nowMs + delayMs, then };
    this.#timers.add(timer);
    return { dispose: () => this.#timers.delete(timer) };
  }

  get timers(): number {
    return this.#timers.size;
  }

  /** Lets `forMs` pass: each timer that is due runs in its order, and what waits for it goes on before the next one. */
  async pass(forMs: number): Promise<void> {
    const untilMs = this.#nowMs + forMs;
    await idle();
    for (;;) {
      const [next] = [...this.#timers].sort((one, other) => one.atMs - other.atMs);
      if (!next || next.atMs > untilMs) break;
      this.#timers.delete(next);
      this.#nowMs = next.atMs;
      next.then();
      await idle();
    }
    this.#nowMs = untilMs;
  }
}

/** Lets everything go on that waits for nothing but its turn. */
export async function idle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
