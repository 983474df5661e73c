import assert from "node:assert/strict";
import test from "node:test";

import { Searcher } from "../../src/core/searcher";
import { FakeClock } from "./support/fakeClock";
import { settled } from "./support/settled";

function made() {
  const clock = new FakeClock();
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
    clock,
  );
  const at = (index: number) => {
    const one = asked[index];
    assert(one, `question ${index} was not asked`);
    return one;
  };
  return { clock, asked, told, searcher, at };
}

test("keys that follow each other are one question, after the pause", async () => {
  const { clock, asked, searcher } = made();
  searcher.later("r");
  searcher.later("re");
  searcher.later("red");
  await clock.pass(119);
  assert.equal(asked.length, 0);
  await clock.pass(1);
  assert.deepEqual(asked.map((one) => one.question), ["red"]);
});

test("what was not typed is asked at once, and a pause that runs is over", () => {
  const { clock, asked, searcher } = made();
  searcher.later("typed");
  searcher.now("chosen");
  assert.deepEqual(asked.map((one) => one.question), ["chosen"]);
  assert.equal(clock.timers, 0);
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
  const { clock, told, searcher, at } = made();
  searcher.later("a");
  searcher.later("ab");
  await clock.pass(120);
  searcher.now("abc");
  at(1).answer("fine");
  await settled();
  assert.deepEqual(told.filter((one) => one === "busy" || one === "idle"), ["busy", "idle"]);
});

test("nothing is told after the end, and what was asked is withdrawn", async () => {
  const { clock, told, asked, searcher, at } = made();
  searcher.now("first");
  searcher.dispose();
  assert.equal(at(0).signal.aborted, true);
  at(0).answer("late");
  searcher.now("second");
  searcher.later("third");
  await settled();
  assert.deepEqual(told, ["busy"]);
  assert.equal(asked.length, 1);
  assert.equal(clock.timers, 0);
});
