/**
 * Telling something once among the windows of a machine: they share one daemon, and meet its failures at the same moment.
 *
 * Who tells is settled by a small file, which only one process can make. The time is cut into spans, and the number of
 * the span is part of the file's name, so that no file has to be removed before it can be made again: of two windows
 * that did that at the same moment, one would remove what the other had just made. What was told at the end of the span
 * before counts, too, as long as it is younger than a span.
 */

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import * as path from "node:path";

/** How long nobody tells the same again. */
export const SPAN_MS = 180_000;

const NAME = /^told-[0-9a-f]{16}-(\d+)$/;

/**
 * Whether it is the caller's to tell `what`: true for the first that asks, false for all others until `SPAN_MS` are over.
 * Where no file can be made it is true: rather twice than never.
 *
 * @param directory Shared by the windows; made where it is not there.
 * @param nowMs Since 1970, so that it means the same in every process.
 */
export function isFirstToTell(directory: string, what: string, nowMs = Date.now()): boolean {
  const span = Math.floor(nowMs / SPAN_MS);
  const digest = createHash("sha256").update(what).digest("hex").slice(0, 16);
  const fileOf = (number: number): string => path.join(directory, `told-${digest}-${number}`);
  if (nowMs - toldAtMs(fileOf(span - 1)) < SPAN_MS) return false;
  try {
    mkdirSync(directory, { recursive: true });
    writeFileSync(fileOf(span), String(nowMs), { flag: "wx" });
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "EEXIST";
  }
  removeOlder(directory, span - 1);
  return true;
}

/** -Infinity where it was not told in that span. */
function toldAtMs(file: string): number {
  try {
    return Number(readFileSync(file, "utf8"));
  } catch {
    return -Infinity;
  }
}

/** Nobody looks at these any more. */
function removeOlder(directory: string, span: number): void {
  try {
    for (const name of readdirSync(directory)) {
      if (Number(NAME.exec(name)?.[1] ?? span) < span) rmSync(path.join(directory, name), { force: true });
    }
  } catch {
    // they are small, and the next one tries again
  }
}
