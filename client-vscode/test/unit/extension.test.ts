/** The whole extension, as the editor loads it and takes it down. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";

import type * as vscode from "vscode";

import { Disposable, editor, settled } from "./support/fakeVscode";
import { FakePalace, partsOf } from "./support/fakeWindow";
import { until, whole } from "./support/wholeEditor";

import { activate } from "../../src/extension";
import { registerDaemon } from "../../src/ui/daemon";
import { follow } from "../../src/ui/following";
import { registerOnUse } from "../../src/ui/onUse";
import type { Parts } from "../../src/ui/parts";

let given: vscode.ExtensionContext;

beforeEach(() => {
  given = whole.open();
});

afterEach(() => {
  whole.close();
});

function end(): void {
  for (const one of given.subscriptions.splice(0)) one.dispose();
}

const loaded = (): string[] => whole.told.flatMap((line) => /^Loaded (.*) in \d+\.\d ms\.$/.exec(line)?.[1] ?? []);

describe("the extension", { timeout: 60_000 }, () => {
  test("registers its commands, finds out how the daemon is, and leaves nothing; its log ends last", async () => {
    activate(given);
    assert.deepEqual(whole.errors, []);
    assert.ok(["palace.recall", "palace.showStatus", "palace.restartDaemon", "palace.connectAgent"].every((name) => editor.commands.has(name)));
    await until(() => loaded().length === 2 && editor.context.get("palace.state") === "off");
    assert.deepEqual(loaded(), ["what reaches the daemon", "what shows the daemon"]);
    end();
    await settled();
    assert.deepEqual(whole.ends, ["view", "status item", "log"]);
    assert.equal(editor.commands.size, 0);
    assert.equal(editor.contentProviders.size, 0);
    assert.equal(editor.configurationChanged.listenerCount, 0);
    assert.equal(editor.trustGranted.listenerCount, 0);
  });

  test("tells in its log, once, how long its activation took", () => {
    activate(given);
    const [line = "", ...more] = whole.told.filter((one) => one.startsWith("Activated"));
    const [, wholeMs, loadMs] = /^Activated in (\d+\.\d) ms, (\d+\.\d) of them to load\.$/.exec(line) ?? assert.fail(line);
    assert.ok(Number(wholeMs) >= Number(loadMs), line);
    assert.deepEqual(more, []);
    end();
  });

  test("a command that comes before anything is loaded waits for it, and what it needs is loaded once", async () => {
    activate(given);
    const run = (name: string) => editor.commands.get(name)?.({ query: "which port" });
    await Promise.all([run("palace.recall"), run("palace.forgetItem"), run("palace.recall")]);
    assert.equal(editor.quickPick.value, "which port");
    assert.ok(editor.messages.some((one) => one.text.includes("nothing is chosen")), "the other command ran, too");
    assert.deepEqual(loaded(), ["what reaches the daemon", "what shows the daemon", "what is called for"]);
    end();
    assert.ok(editor.quickPick.isDisposed, "what is called for ends, too");
  });

  test("a command that is there already costs itself, and is told in the log", () => {
    editor.commands.set("palace.restartDaemon", () => undefined); // another version of the extension has it
    activate(given);
    assert.ok(editor.commands.has("palace.recall"));
    assert.equal(whole.errors.length, 1);
    end();
  });

  test("one that is taken down at once begins nothing, and tells nobody", async () => {
    activate(given);
    const running = editor.commands.get("palace.recall")?.();
    end();
    await running;
    await settled();
    assert.deepEqual(loaded(), []);
    assert.equal(editor.context.size, 0);
    assert.deepEqual([whole.errors, editor.messages, whole.ends], [[], [], ["log"]]);
  });

  test("every command of package.json is run by one of the parts", () => {
    const defined: string[] = [];
    const command = (name: string): Disposable => {
      defined.push(name);
      return new Disposable();
    };
    const parts = { ...partsOf(new FakePalace()), context: given, command } as unknown as Parts;
    const registered = [registerDaemon(parts), follow(parts), registerOnUse(parts)];
    const { contributes } = given.extension.packageJSON as { contributes: { commands: { command: string }[] } };
    assert.deepEqual(defined.sort(), contributes.commands.map((one) => one.command).sort());
    for (const one of registered) one.dispose();
  });
});
