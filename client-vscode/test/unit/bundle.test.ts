/** The bundle as esbuild.mjs makes it: what is in it, and which of its files are loaded when. */

import { editor, settled } from "./support/fakeVscode";
import { until, whole } from "./support/wholeEditor";

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import Module, { builtinModules, createRequire } from "node:module";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { after, before, test } from "node:test";
import { compileFunction } from "node:vm";

import type { Metafile } from "esbuild";
import type * as vscode from "vscode";

const EXTENSION = path.resolve(import.meta.dirname, "../..");
const BYTES_MAX = 450_000;
/** Of the file that the editor loads when it starts; each kilobyte costs a tenth of a millisecond to compile. */
const STARTING_BYTES_MAX = 10_000;

let directory: string;
let meta: Metafile;

before(() => {
  directory = mkdtempSync(path.join(tmpdir(), "pal-bundle-"));
  execFileSync(process.execPath, [path.join(EXTENSION, "esbuild.mjs"), `--to=${directory}`]);
  meta = JSON.parse(readFileSync(path.join(directory, "meta.json"), "utf8")) as Metafile;
});

after(() => {
  rmSync(directory, { recursive: true, force: true });
});

function files(): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".js")).map((name) => path.join(directory, name));
}

/** The one file whose name begins so. */
function part(name: string): string {
  const [found, ...more] = files().filter((file) => path.basename(file).startsWith(`${name}-`));
  assert.ok(found !== undefined && more.length === 0, name);
  return found;
}

test("the bundle needs nothing but VS Code and Node, is small, and names no place on the machine that built it", () => {
  const required = files().flatMap((file) => [...readFileSync(file, "utf8").matchAll(/\brequire\("([^"]+)"\)/g)].map(([, name = ""]) => [file, name] as const));
  const [own, others] = [required.filter(([, name]) => name.startsWith(".")), required.filter(([, name]) => !name.startsWith("."))];
  const known = new Set(["vscode", ...builtinModules, ...builtinModules.map((name) => `node:${name}`)]);
  assert.ok(others.some(([, name]) => name === "vscode"));
  assert.deepEqual(others.filter(([, name]) => !known.has(name)), []);
  assert.deepEqual(own.filter(([file, name]) => !files().includes(path.resolve(path.dirname(file), name))), []);
  const packages = Object.keys(meta.inputs).map((name) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(name)?.[1]);
  assert.deepEqual([...new Set(packages.filter((name) => name !== undefined))], ["vscode-jsonrpc"]);
  const bytes = files().reduce((sum, file) => sum + statSync(file).size, 0);
  assert.ok(bytes < BYTES_MAX, `${bytes} bytes`);
  assert.deepEqual(files().filter((file) => readFileSync(file, "utf8").includes(EXTENSION)), []);
});

test("no module is in two files: what it remembers would be there twice", () => {
  const inputs = Object.values(meta.outputs).flatMap((output) => Object.keys(output.inputs));
  assert.ok(inputs.includes("src/core/errors.ts"));
  assert.deepEqual(inputs.filter((name, at) => inputs.indexOf(name) !== at), []);
});

test("the file that the editor loads when it starts is small, and looks at the clock before it loads anything, so that what it tells of its activation is all of it", () => {
  const starting = readFileSync(path.join(directory, "extension.js"), "utf8");
  assert.ok(Buffer.byteLength(starting) < STARTING_BYTES_MAX, `${Buffer.byteLength(starting)} bytes`);
  const done: string[] = [];
  const clock = { now: () => done.push("clock") };
  const require = (name: string): never => {
    done.push(name);
    throw new Error("enough");
  };
  const run = compileFunction(starting, ["module", "exports", "require", "performance"]) as (...given: unknown[]) => void;
  assert.throws(() => {
    run({ exports: {} }, {}, require, clock);
  }, /enough/);
  assert.deepEqual(done, ["clock", "vscode"]);
});

/** Runs in the editor what was built; `requested` is what was loaded since, by the beginning of its name. */
async function inEditor(run: (requested: Set<string>) => Promise<void>): Promise<void> {
  const loading = Module as unknown as { _load: (request: string, parent: unknown, isMain: boolean) => unknown };
  const load = loading._load;
  const requested = new Set<string>();
  loading._load = (request, parent, isMain) => {
    requested.add(path.basename(request).replace(/-[A-Z0-9]{8}\.js$/, ""));
    return load.call(Module, request, parent, isMain);
  };
  const require = createRequire(path.join(directory, "extension.js"));
  for (const file of Object.keys(require.cache).filter((one) => one.startsWith(directory))) Reflect.deleteProperty(require.cache, file);
  const given = whole.open();
  try {
    (require("./extension.js") as { activate(context: vscode.ExtensionContext): void }).activate(given);
    await run(requested);
  } finally {
    for (const one of given.subscriptions) one.dispose();
    await settled();
    loading._load = load;
    whole.close();
  }
}

test("activation evaluates one file; what shows the daemon comes after it, and everything else when it is called for", { timeout: 60_000 }, async () => {
  await inEditor(async (requested) => {
    assert.deepEqual([...requested], ["extension.js", "vscode"]);
    assert.ok(editor.commands.has("palace.recall"));
    await until(() => editor.context.get("palace.state") === "off" && requested.has("following"));
    assert.ok(requested.has("daemon"));
    assert.deepEqual(["connection", "onUse"].filter((name) => requested.has(name)), [], "no daemon is there, and nobody called");
    await editor.commands.get("palace.recall")?.();
    assert.ok(requested.has("onUse"));
    assert.ok(editor.quickPick.isVisible);
  });
});

test("a part that cannot be loaded is told with what to do, costs only what it does, and is tried again", { timeout: 60_000 }, async () => {
  const file = part("onUse");
  renameSync(file, `${file}.away`);
  try {
    await inEditor(async () => {
      await editor.commands.get("palace.recall")?.();
      const [told, ...more] = editor.messages;
      assert.match(told?.text ?? "", /^A part of Palace cannot be loaded: what is called for\. Install the extension again, then reload the window\./);
      assert.deepEqual([told?.kind, more], ["error", []]);
      assert.deepEqual(whole.errors, [told?.text]);
      assert.equal(editor.quickPicks.length, 0);
      await until(() => editor.context.get("palace.state") === "off");
      renameSync(`${file}.away`, file);
      await editor.commands.get("palace.recall")?.();
      assert.ok(editor.quickPick.isVisible);
    });
  } finally {
    rmSync(`${file}.away`, { force: true });
  }
});
