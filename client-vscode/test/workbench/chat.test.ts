import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import { after, before, test } from "node:test";

import { CodeServer } from "./support/codeServer.ts";
import { until } from "./support/waiting.ts";

let server: CodeServer;

before(async () => {
  server = await CodeServer.start("chat");
});

after(async () => {
  await server.end();
});

/** What the editor says of the tool, and what the tool answered. */
interface Told {
  readonly description?: string;
  readonly answers?: readonly string[];
  readonly error?: string;
}

/** An extension that asks the editor for the tool, as a chat does: this workbench has no model that would. */
function writeAsker(directory: string, answers: string): void {
  mkdirSync(directory);
  const manifest = { name: "asker", publisher: "test", version: "0.0.1", engines: { vscode: "^1.95.0" }, main: "./asker.js", activationEvents: ["onStartupFinished"] };
  writeFileSync(path.join(directory, "package.json"), JSON.stringify(manifest));
  writeFileSync(
    path.join(directory, "asker.js"),
    `const fs = require("node:fs");
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
  fs.writeFileSync(${JSON.stringify(`${answers}.new`)}, JSON.stringify(told));
  fs.renameSync(${JSON.stringify(`${answers}.new`)}, ${JSON.stringify(answers)});
};
`,
  );
}

test("the editor's chat has a tool that recalls", async () => {
  await server.scenario("chat", async () => {
    const [asker, answers] = [path.join(server.world.root, "asker"), path.join(server.world.root, "answers.json")];
    writeAsker(asker, answers);
    await server.world.palace("mine", "--wait");
    const where = `vscode-remote://127.0.0.1:${String(server.port)}${asker}`;
    await server.open({ payload: [["extensionDevelopmentPath", where]] });
    await until("the tool has answered", () => Promise.resolve(existsSync(answers)));
    const { description, answers: given, error } = JSON.parse(readFileSync(answers, "utf8")) as Told;
    assert.equal(error, undefined);
    assert.match(description ?? "", /Use it before you ask the person/);
    assert.match(given?.[0] ?? "", /^<palace-recall v="1">\nQuoted history[^]*\[1\] .*tidepool[^]*<\/palace-recall>/);
    assert.match(given?.[1] ?? "", /project must be an absolute path or the last name of a project/);
  });
});
