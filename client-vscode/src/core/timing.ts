/** Time, as something that is passed in, so that tests need not wait for it. */

export interface Clock {
  /** Milliseconds since some moment. */
  now(): number;
  /** Calls `then` once, after `delayMs`; what is returned calls it off. */
  after(delayMs: number, then: () => void): { dispose(): void };
}

export const realClock: Clock = {
  now: () => performance.now(),
  after: (delayMs, then) => {
    const timer = setTimeout(then, delayMs);
    return {
      dispose: () => {
        clearTimeout(timer);
      },
    };
  },
};

/** Resolved after `delayMs`, or as soon as `signal` is aborted. */
export function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      timer.dispose();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = clock.after(delayMs, done);
    signal.addEventListener("abort", done, { once: true });
  });
}
