/** Waiting for something to be so, never for a fixed time. */

const POLL_MS = 50;
/** For a machine with two busy cores, where all takes five times as long as on an idle one: what works is never waited for so long. */
const LIMIT_MS = 60_000;

/**
 * Asks until the answer is neither undefined nor false, and returns it.
 *
 * @throws Error naming `what`, with what was seen last, after `limitMs`.
 */
export async function until<T>(
  what: string,
  ask: () => T | Promise<T>,
  options: { limitMs?: number; seen?: () => unknown } = {},
): Promise<Exclude<Awaited<T>, undefined | false>> {
  const limitMs = options.limitMs ?? LIMIT_MS;
  const end = performance.now() + limitMs;
  let last: unknown;
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer as Exclude<Awaited<T>, undefined | false>;
      last = answer;
    } catch (error) {
      last = error;
    }
    if (performance.now() > end) {
      const seen = options.seen ? JSON.stringify(await options.seen()) : String(last);
      throw new Error(`waited ${String(limitMs / 1000)} s for: ${what}; seen: ${seen}`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
