import assert from "node:assert/strict";
import { test } from "node:test";

import "./support/fakeVscode";

import { registerChat } from "../../src/ui/chat";
import type { Parts } from "../../src/ui/parts";

test("the oldest version of VS Code, which knows neither tools nor MCP, is left alone", () => {
  const logged: string[] = [];
  const log = { debug: (text: string) => logged.push(text) } as unknown as Parts["log"];
  const unasked = (): Promise<never> => assert.fail("nobody can ask");
  registerChat(log, { tool: unasked, servers: unasked }).dispose();
  assert.deepEqual(logged, [
    "This version of VS Code has no language model tools.",
    "This version of VS Code has no MCP servers of extensions.",
  ]);
});
