/**
 * When the bundle began to run. What is imported before everything else is evaluated before everything else: nothing
 * may be imported here.
 */

/** On the clock of `performance.now()`, in milliseconds. */
export const begunAt = performance.now();
