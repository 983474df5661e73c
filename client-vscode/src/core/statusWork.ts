/** What the daemon is busy with, told from one status to the next, and when that deserves a notification. */

import type { StatusResult } from "./protocol";

export interface Work {
  readonly stage: "mine" | "embed";
  readonly done: number;
  readonly total: number;
  /** Whole percent, below 100 while there is work. */
  readonly percent: number | undefined;
  /** Seconds left, where that can be told. */
  readonly etaS: number | undefined;
}

/** Below these, work is over within a moment, and comes with each turn of a live session: an icon that spins would only distract. */
const FILES_SHOWN_FROM = 3;
const TEXTS_SHOWN_FROM = 50;
/** A backlog of this many files is as long as a first run. */
const FILES_LONG = 200;
const SHOWN_AFTER_MS = 10_000;
/** Files done before their pace says anything. */
const FILES_PACED_FROM = 10;

/** Turns statuses into progress: the daemon tells what waits, and of what was there this remembers the most. */
export class WorkMeter {
  #filesMost = 0;
  #filesSinceMs = 0;

  /** @param nowMs - A clock that does not go back, in milliseconds. */
  update(status: StatusResult, nowMs: number): Work | undefined {
    const waiting = status.sourcesPending;
    if (waiting === 0) this.#filesMost = 0;
    if (waiting > this.#filesMost) {
      if (this.#filesMost === 0) this.#filesSinceMs = nowMs;
      this.#filesMost = waiting;
    }
    if (status.embedding.isPaused) return undefined;
    if (this.#filesMost >= FILES_SHOWN_FROM) return this.#mining(waiting, nowMs);
    return embedding(status);
  }

  #mining(waiting: number, nowMs: number): Work {
    const done = this.#filesMost - waiting;
    const perMs = done / Math.max(1, nowMs - this.#filesSinceMs);
    const etaS = done >= FILES_PACED_FROM ? waiting / perMs / 1000 : undefined;
    return { stage: "mine", done, total: this.#filesMost, percent: percentOf(done, this.#filesMost), etaS };
  }
}

function embedding(status: StatusResult): Work | undefined {
  const next = status.embedding.coverage.find((one) => one.role === "next");
  const [done, total] = next ? [next.vectors, next.texts] : [status.vectors, status.vectors + status.vectorsPending];
  if (total - done < TEXTS_SHOWN_FROM || !canEmbed(status)) return undefined;
  const { etaS } = status.embedding;
  return { stage: "embed", done, total, percent: percentOf(done, total), etaS: etaS ?? undefined };
}

/** Whether texts that wait for a vector will get one: without a model they wait until a person installs it. */
function canEmbed(status: StatusResult): boolean {
  return !status.modelState.startsWith("failed");
}

function percentOf(done: number, total: number): number {
  return Math.min(99, Math.floor((100 * done) / Math.max(1, total)));
}

/** Whether mining is a long first run whose progress is worth a notification. One for each daemon that is reached. */
export class FirstRun {
  #isFirst = false;
  #sinceMs: number | undefined;
  #isShown = false;
  #isOver = false;

  /**
   * @param nowMs - As for `WorkMeter`.
   * @returns `wait` while it may still become long, `show` while it is, and `no` where there is nothing to show or it is over.
   */
  update(status: StatusResult, nowMs: number): "no" | "wait" | "show" {
    if (this.#isOver) return "no";
    // An empty store: whatever it is given is its first run. A new daemon fills its queue while it walks the directories.
    if (status.exchanges === 0 || status.sourcesPending > FILES_LONG) this.#isFirst = true;
    const isBusy = !status.embedding.isPaused && (status.sourcesPending > 0 || embedding(status) !== undefined);
    if (!isBusy) {
      this.#isOver = this.#isShown;
      this.#isFirst = false; // it was short; a queue that is still being filled may run empty once
      this.#sinceMs = undefined;
      return "no";
    }
    if (!this.#isFirst) return "no";
    this.#sinceMs ??= nowMs;
    this.#isShown ||= nowMs - this.#sinceMs >= SHOWN_AFTER_MS;
    return this.#isShown ? "show" : "wait";
  }

  /** In how many milliseconds `update` may say `show`, if the work goes on; undefined while none is under way. */
  dueInMs(nowMs: number): number | undefined {
    if (this.#isOver || this.#sinceMs === undefined) return undefined;
    return Math.max(0, SHOWN_AFTER_MS - (nowMs - this.#sinceMs));
  }
}
