import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { after, beforeEach, test } from "node:test";

import { command, editor, settled } from "./support/fakeVscode";

import { PalaceError } from "../../src/core/errors";
import { registerAgents } from "../../src/ui/agents";
import type { Parts } from "../../src/ui/parts";

const directory = mkdtempSync(path.join(tmpdir(), "palace-agents-"));
const program = path.join(directory, "daemon");
const log = path.join(directory, "log");
const state = path.join(directory, "state");

// Stands for `python -m palace_daemon`: knows one agent, and whether that is connected.
writeFileSync(
  program,
  `#!${process.execPath}
const fs = require("node:fs");
const words = process.argv.slice(2);
fs.appendFileSync(${JSON.stringify(log)}, words.join(" ") + "\\n");
const known = fs.readFileSync(${JSON.stringify(state)}, "utf8");
const isDryRun = words.includes("--dry-run"), isRemoval = words.includes("--remove");
if (known === "broken") { console.error("palace-daemon: cannot read ~/.claude.json"); process.exit(2); }
if (words.includes("--list")) {
  const other = { agent: "codex", isFound: false, state: "absent", reason: "" };
  console.log(JSON.stringify({ agents: [other, { agent: "claude", isFound: true, state: known, reason: "" }] }));
} else {
  if (!isDryRun) fs.writeFileSync(${JSON.stringify(state)}, isRemoval ? "absent" : "connected");
  const files = [{ path: "/x/.claude.json", change: "changed", diff: isRemoval ? "-palace" : "+palace" }];
  console.log(JSON.stringify({ files, advice: isRemoval ? [] : ["start a new session of Claude Code"] }));
}
`,
);
chmodSync(program, 0o755);
after(() => {
  rmSync(directory, { recursive: true });
});

function begin(known: string): void {
  editor.reset();
  writeFileSync(log, "");
  writeFileSync(state, known);
}

const logged: string[] = [];
const parts = {
  commandLine: () => Promise.resolve([program]),
  settings: () => ({ dataDirectory: "" }),
  command,
  log: { info: (text: string) => logged.push(text), error: (text: string) => logged.push(text) },
} as unknown as Parts;

beforeEach(() => {
  logged.length = 0;
});

async function connectAgent(known: string, answers: readonly unknown[], given = parts): Promise<void> {
  begin(known);
  const registered = registerAgents(given);
  editor.answers.push(...answers);
  await editor.commands.get("palace.connectAgent")?.();
  await settled();
  registered.dispose();
}

const ran = (): string[] => readFileSync(log, "utf8").trim().split("\n");

test("nothing is written before a person has seen the files and agreed", async () => {
  await connectAgent("absent", ["Claude Code"]);
  assert.deepEqual(ran(), ["connect --list --json", "connect claude --dry-run --json"]);
  const [asked] = editor.messages;
  assert.equal(asked?.text, "Connect Claude Code to Palace?");
  assert.match(asked.detail ?? "", /^Changed: \/x\/\.claude\.json\n\nEverything else in these files stays/);
  assert.deepEqual(asked.buttons, ["Connect", "Show the Changes"]);
});

test("an agent is connected, told what comes next, and that can be undone", async () => {
  await connectAgent("absent", ["Claude Code", "Connect", "Undo"]);
  assert.deepEqual(ran().slice(2), ["connect claude --json", "connect claude --remove --json"]);
  assert.deepEqual(
    editor.messages.slice(1).map((one) => one.text),
    ["Claude Code is connected to Palace. Start a new session of Claude Code.", "Claude Code is not connected to Palace any more."],
  );
  assert.equal(readFileSync(state, "utf8"), "absent");
});

test("the changes are shown in a document before the question is asked again", async () => {
  await connectAgent("absent", ["Claude Code", "Show the Changes", "Connect"]);
  assert.equal(editor.shown.length, 1);
  const { uri } = (editor.shown[0] as { target: { uri: { scheme: string; path: string } } }).target;
  assert.equal(uri.scheme, "palace-settings");
  assert.match(uri.path, /Claude Code\.diff$/);
  assert.equal(readFileSync(state, "utf8"), "connected");
});

test("a document with the changes shows them", async () => {
  begin("absent");
  const registered = registerAgents(parts);
  editor.answers.push("Claude Code", "Show the Changes");
  await editor.commands.get("palace.connectAgent")?.();
  const provider = editor.contentProviders.get("palace-settings") as { provideTextDocumentContent(uri: unknown): string };
  const { uri } = (editor.shown[0] as { target: { uri: unknown } }).target;
  assert.equal(provider.provideTextDocumentContent(uri), "+palace");
  assert.equal(readFileSync(state, "utf8"), "absent");
  registered.dispose();
  assert.equal(editor.contentProviders.size, 0);
});

test("an agent that is connected is offered to be disconnected", async () => {
  await connectAgent("connected", ["Claude Code", "Disconnect"]);
  assert.deepEqual(ran().slice(1), ["connect claude --remove --dry-run --json", "connect claude --remove --json"]);
  assert.equal(readFileSync(state, "utf8"), "absent");
});

test("one that is connected in part can go either way", async () => {
  await connectAgent("differs", ["Claude Code", "Disconnect", "Disconnect"]);
  assert.deepEqual(editor.messages[0]?.buttons, ["Connect", "Show the Changes", "Disconnect"]);
  assert.equal(readFileSync(state, "utf8"), "absent");
});

test("a failure of the command is told in its words", async () => {
  await connectAgent("broken", []);
  assert.equal(editor.messages.at(-1)?.text, "Cannot read ~/.claude.json.");
  assert.equal(editor.messages.at(-1)?.kind, "error");
});

test("without the daemon's package the way to install it is offered", async () => {
  const missing = { ...parts, commandLine: () => Promise.reject(new PalaceError("palace-daemon is not installed", "missing")) };
  await connectAgent("absent", ["Install the Daemon…"], missing);
  assert.equal(editor.messages.at(-1)?.text, "Palace-daemon is not installed.");
  assert.deepEqual(editor.ran.map((one) => one.command), ["palace.installDaemon"]);
});
