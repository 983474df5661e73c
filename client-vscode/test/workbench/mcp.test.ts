import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { CodeServer } from "./support/codeServer.ts";
import { installed } from "./support/installed.ts";
import { until } from "./support/waiting.ts";
import type { Workbench } from "./support/workbench.ts";

const IS_TOO_OLD = installed().vscode === "1.100" && "VS Code takes MCP servers of extensions from 1.101 on; PALACE_VSCODE=1.100 chose an older one";

/** What the editor offers to a chat once the server runs, and what its tool answered. */
interface Told {
  readonly tools: readonly string[];
  readonly answer?: string;
  readonly error?: string;
}

/** Waits until the editor lists the server's tools, then calls one of them, as a chat does: this workbench has no model that would. */
const ASKER = `
const fs = require("node:fs");
const vscode = require("vscode");
exports.activate = () => {
  const waiting = setInterval(() => {
    const tools = vscode.lm.tools.map((one) => one.name).filter((name) => name.startsWith("mcp_palace_"));
    if (!tools.includes("mcp_palace_recall")) return;
    clearInterval(waiting);
    const input = { query: "why is the database locked at night?", limit: 2 };
    vscode.lm
      .invokeTool("mcp_palace_recall", { input, toolInvocationToken: undefined })
      .then(({ content }) => ({ tools, answer: content.map((part) => part.value).join("") }), (error) => ({ tools, error: String(error) }))
      .then((told) => {
        const file = process.env.PALACE_WORLD + "/answers.json";
        fs.writeFileSync(file + ".new", JSON.stringify(told));
        fs.renameSync(file + ".new", file);
      });
  }, 200);
};
`;

/** Chooses a row of the quick pick that is open, or opens next. */
async function choose(window: Workbench, label: string, picture: string): Promise<void> {
  await until(`${label} is listed`, async () => (await window.rows()).some((row) => row.label === label), { seen: () => window.rows() });
  await window.screenshot(picture);
  await window.input.fill(label);
  await until(`${label} is chosen`, async () => (await window.rows()).some((row) => row.label === label && row.isFocused), { seen: () => window.rows() });
  await window.page.keyboard.press("Enter");
}

test("the editor starts Palace's MCP server, lists its tools, and a recall comes back through it", { skip: IS_TOO_OLD }, async () => {
  const server = await CodeServer.start("mcp", { beside: { name: "asker", code: ASKER } });
  try {
    await server.scenario("mcp", async () => {
      const window = await server.open();
      await window.untilStatus(/^28$/);
      assert.deepEqual(mcpServers(server), []);
      await window.command("MCP: List Servers");
      await choose(window, "Palace", "mcp-servers");
      await choose(window, "Start Server", "mcp-actions");
      const file = path.join(server.world.root, "answers.json");
      await until("the tool has answered", () => existsSync(file), { limitMs: 60_000, seen: () => window.panelText() });
      const { tools, answer, error } = JSON.parse(readFileSync(file, "utf8")) as Told;
      assert.equal(error, undefined);
      assert.match(answer ?? "", /^<palace-recall v="1">\nQuoted history[^]*\[1\] .*tidepool[^]*<\/palace-recall>/);
      const names = ["forget", "get", "recall", "remember", "status", "timeline"].map((name) => `mcp_palace_${name}`);
      assert.deepEqual([...tools].sort(), names);
      const [commandLine, ...more] = mcpServers(server);
      assert.ok(commandLine?.startsWith(server.world.python), `not what the extension defines: ${String(commandLine)}; ${server.world.commandLines().join("; ")}`);
      assert.deepEqual(more, []);
      await until("the editor counts the tools", async () => (await window.panelText()).includes("Discovered 6 tools"), { seen: () => window.panelText() });
      await window.screenshot("mcp-started");
    });
  } finally {
    await server.end();
  }
});

/** The command lines of the MCP servers that run in the world. */
function mcpServers(server: CodeServer): string[] {
  const isOne = (words: readonly string[]): boolean => words.includes("palace_daemon") && words.at(-1) === "mcp";
  return server.world.commandLines().filter(isOne).map((words) => words.join(" "));
}
