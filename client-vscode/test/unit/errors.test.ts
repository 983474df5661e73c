import assert from "node:assert/strict";
import { test } from "node:test";

import { inWords, PalaceError } from "../../src/core/errors";

test("an error is told in sentences, with what to do", () => {
  assert.equal(inWords(new PalaceError("no daemon is running", "notRunning", "restart the daemon")), "No daemon is running. Restart the daemon.");
  assert.equal(inWords(new Error("it broke!")), "It broke!");
});

test("what an error quotes makes no link, which in a message could run a command", () => {
  const words = inWords(new PalaceError("no project is called [here](command:workbench.action.quit)", "params", "near it: [a](command:b)"));
  assert.ok(!words.includes("]("), words);
});

test("a hint that the daemon's message ends with is told once", () => {
  const told = PalaceError.from("unknown agent in the filter (known are codex, goose)", { kind: "params", hint: "known are codex, goose" });
  assert.equal(inWords(told), "Unknown agent in the filter. Known are codex, goose.");
  assert.equal(inWords(PalaceError.from("the store is busy (try again)", { kind: "storeBusy" })), "The store is busy (try again).");
});
