/** The whole extension, as the editor loads it and takes it down. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";

import type * as vscode from "vscode";

import { api, editor, EventEmitter, settled, Uri } from "./support/fakeVscode";

import { activate } from "../../src/extension";

let directory = "";
let ends: string[];
let errors: string[];
let told: string[];

const log = {
  ...Object.fromEntries(
    ["trace", "debug", "info", "warn"].map((name) => [
      name,
      (text: string) => {
        told.push(text);
        if (ends.includes("log")) ends.push(`${name} after the end`);
      },
    ]),
  ),
  error: (text: string) => errors.push(text),
  dispose: () => ends.push("log"),
};

const changed = new EventEmitter<void>();
Object.assign(api.window, {
  createOutputChannel: () => log,
  createStatusBarItem: () => ({ show: () => undefined, hide: () => undefined, dispose: () => ends.push("status item") }),
  createTreeView: () => ({ onDidChangeVisibility: changed.event, visible: false, dispose: () => ends.push("view") }),
  onDidChangeActiveTextEditor: changed.event,
  onDidChangeWindowState: changed.event,
  withProgress: (_options: unknown, task: () => unknown) => Promise.resolve(task()),
});
Object.assign(api.workspace, { onDidCloseTextDocument: changed.event, onDidChangeWorkspaceFolders: changed.event, isTrusted: true });

beforeEach(() => {
  editor.reset();
  directory = mkdtempSync(path.join(tmpdir(), "pal-ext-"));
  editor.settings.set("palace.dataDirectory", path.join(directory, "data"));
  editor.settings.set("palace.startDaemon", false);
  process.env.XDG_RUNTIME_DIR = directory;
  ends = [];
  errors = [];
  told = [];
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function context(): vscode.ExtensionContext {
  const memory = { get: () => undefined, update: () => Promise.resolve(), keys: () => [] };
  return {
    subscriptions: [],
    globalStorageUri: Uri.file(path.join(directory, "storage")),
    extensionPath: path.join(directory, "extension"),
    extensionUri: Uri.file(path.join(directory, "extension")),
    extension: { packageJSON: { version: "0.1.0" } },
    globalState: memory,
    workspaceState: memory,
  } as unknown as vscode.ExtensionContext;
}

describe("the extension", () => {
  test("registers its commands, finds out how the daemon is, and leaves nothing; its log ends last", async () => {
    const given = context();
    activate(given);
    assert.deepEqual(errors, []);
    assert.ok(["palace.recall", "palace.showStatus", "palace.restartDaemon", "palace.connectAgent"].every((name) => editor.commands.has(name)));
    await settled();
    assert.equal(editor.context.get("palace.state"), "off");
    for (const one of given.subscriptions) one.dispose();
    await settled();
    assert.equal(ends.at(-1), "log", ends.join(", "));
    assert.equal(editor.commands.size, 0);
    assert.equal(editor.configurationChanged.listenerCount, 0);
    assert.equal(editor.trustGranted.listenerCount, 0);
  });

  test("tells in its log, once, how long its activation took", () => {
    const given = context();
    activate(given);
    const [line = "", ...more] = told.filter((one) => one.startsWith("Activated"));
    const [, wholeMs, loadMs] = /^Activated in (\d+\.\d) ms, (\d+\.\d) of them to load\.$/.exec(line) ?? assert.fail(line);
    assert.ok(Number(wholeMs) >= Number(loadMs) && Number(loadMs) > 0, line);
    assert.deepEqual(more, []);
    for (const one of given.subscriptions) one.dispose();
  });

  test("a part that cannot be registered costs itself, and is told in the log", () => {
    const given = context();
    editor.commands.set("palace.restartDaemon", () => undefined); // another version of the extension has it
    activate(given);
    assert.ok(editor.commands.has("palace.recall"));
    assert.equal(errors.length, 1);
    for (const one of given.subscriptions) one.dispose();
  });

  test("one that is taken down at once begins nothing", async () => {
    const given = context();
    activate(given);
    for (const one of given.subscriptions) one.dispose();
    await settled();
    assert.equal(editor.context.get("palace.state"), "connecting");
  });
});
