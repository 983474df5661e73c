import assert from "node:assert/strict";
import test from "node:test";

import { Searcher, type Timers } from "../../src/core/searcher";
import { settled } from "./support/settled";

/** Timers that ring when a test says so. */
class HandTimers implements Timers {
  readonly waiting = new Map<number, { run: () => void; delayMs: number }>();
  #next = 0;
  set(run: () => void, delayMs: number): number {
    this.#next += 1;
    this.waiting.set(this.#next, { run, delayMs });
    return this.#next;
  }
  clear(timer: unknown): void {
    this.waiting.delete(timer as number);
  }
  ring(): void {
    const [[timer, one] = []] = this.waiting;
    assert(timer !== undefined && one, "no timer is set");
    this.waiting.delete(timer);
    one.run();
  }
}

function made() {
  const timers = new HandTimers();
  const asked: { question: string; signal: AbortSignal; answer: (text: string) => void; fail: (error: Error) => void }[] = [];
  const told: string[] = [];
  const searcher = new Searcher<string, string>(
    (question, signal) =>
      new Promise((answer, fail) => {
        asked.push({ question, signal, answer, fail });
      }),
    {
      onAnswer: (answer, question) => told.push(`${question}=${answer}`),
      onError: (error, question) => told.push(`${question}!${(error as Error).message}`),
      onBusy: (isBusy) => told.push(isBusy ? "busy" : "idle"),
    },
    () => 120,
    timers,
  );
  const at = (index: number) => {
    const one = asked[index];
    assert(one, `question ${index} was not asked`);
    return one;
  };
  return { timers, asked, told, searcher, at };
}

test("keys that follow each other are one question, after the pause", () => {
  const { timers, asked, searcher } = made();
  searcher.later("r");
  searcher.later("re");
  searcher.later("red");
  assert.equal(asked.length, 0);
  assert.deepEqual([...timers.waiting.values()].map((one) => one.delayMs), [120]);
  timers.ring();
  assert.deepEqual(asked.map((one) => one.question), ["red"]);
});

test("what was not typed is asked at once, and a pause that runs is over", () => {
  const { timers, asked, searcher } = made();
  searcher.later("typed");
  searcher.now("chosen");
  assert.deepEqual(asked.map((one) => one.question), ["chosen"]);
  assert.equal(timers.waiting.size, 0);
});

test("the next key withdraws the request before", () => {
  const { searcher, at } = made();
  searcher.now("first");
  assert.equal(at(0).signal.aborted, false);
  searcher.later("second");
  assert.equal(at(0).signal.aborted, true);
});

test("an answer that comes after a newer question is dropped, and so is its error", async () => {
  const { told, searcher, at } = made();
  searcher.now("first");
  searcher.now("second");
  searcher.now("third");
  at(0).answer("old");
  at(1).fail(new Error("old trouble"));
  at(2).answer("new");
  await settled();
  assert.deepEqual(told, ["busy", "idle", "third=new"]);
});

test("an error is told once, and the searcher goes on", async () => {
  const { told, searcher, at } = made();
  searcher.now("first");
  at(0).fail(new Error("trouble"));
  await settled();
  searcher.now("second");
  at(1).answer("fine");
  await settled();
  assert.deepEqual(told, ["busy", "idle", "first!trouble", "busy", "idle", "second=fine"]);
});

test("busy lasts from the first key to the answer, without a gap between questions", async () => {
  const { timers, told, searcher, at } = made();
  searcher.later("a");
  searcher.later("ab");
  timers.ring();
  searcher.now("abc");
  at(1).answer("fine");
  await settled();
  assert.deepEqual(told.filter((one) => one === "busy" || one === "idle"), ["busy", "idle"]);
});

test("nothing is told after the end, and what was asked is withdrawn", async () => {
  const { timers, told, asked, searcher, at } = made();
  searcher.now("first");
  searcher.dispose();
  assert.equal(at(0).signal.aborted, true);
  at(0).answer("late");
  searcher.now("second");
  searcher.later("third");
  await settled();
  assert.deepEqual(told, ["busy"]);
  assert.equal(asked.length, 1);
  assert.equal(timers.waiting.size, 0);
});

test("a stop withdraws and is heard, and the next question is asked as ever", async () => {
  const { told, searcher, at } = made();
  searcher.now("first");
  searcher.stop();
  at(0).answer("late");
  searcher.now("second");
  at(1).answer("fine");
  await settled();
  assert.deepEqual(told, ["busy", "idle", "busy", "idle", "second=fine"]);
});
