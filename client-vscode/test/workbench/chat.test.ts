import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { CodeServer } from "./support/codeServer.ts";
import { until } from "./support/waiting.ts";

/** What the editor says of the tool, and what the tool answered. */
interface Told {
  readonly description?: string;
  readonly answers?: readonly string[];
  readonly error?: string;
}

/** Asks the editor for the tool, as a chat does: this workbench has no model that would. */
const ASKER = `
const fs = require("node:fs");
const vscode = require("vscode");
const ask = async (input) => {
  const { content } = await vscode.lm.invokeTool("palace_recall", { input, toolInvocationToken: undefined });
  return content.map((part) => part.value).join("");
};
exports.activate = async () => {
  const told = {};
  try {
    told.answers = [await ask({ query: "why is the database locked at night?", limit: 2 }), await ask({ query: "x", project: "./here" })];
    told.description = vscode.lm.tools.find((one) => one.name === "palace_recall")?.description;
  } catch (error) {
    told.error = String(error);
  }
  const file = process.env.PALACE_WORLD + "/answers.json";
  fs.writeFileSync(file + ".new", JSON.stringify(told));
  fs.renameSync(file + ".new", file);
};
`;

test("the editor's chat has a tool that recalls", async () => {
  const server = await CodeServer.start("chat", { beside: { name: "asker", code: ASKER } });
  try {
    await server.scenario("chat", async () => {
      await server.world.palace("mine", "--wait");
      await server.open();
      const file = path.join(server.world.root, "answers.json");
      await until("the tool has answered", () => existsSync(file), { limitMs: 60_000 });
      const { description, answers, error } = JSON.parse(readFileSync(file, "utf8")) as Told;
      assert.equal(error, undefined);
      assert.match(description ?? "", /Use it before you ask the person/);
      assert.match(answers?.[0] ?? "", /^<palace-recall v="1">\nQuoted history[^]*\[1\] .*tidepool[^]*<\/palace-recall>/);
      assert.match(answers?.[1] ?? "", /project must be an absolute path or the last name of a project/);
    });
  } finally {
    await server.end();
  }
});
