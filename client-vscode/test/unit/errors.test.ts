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
