/** The bundle as esbuild.mjs makes it. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { after, before, test } from "node:test";
import { compileFunction } from "node:vm";

import type { Metafile } from "esbuild";

const EXTENSION = path.resolve(import.meta.dirname, "../..");
const BYTES_MAX = 450_000;

let directory: string;
let bundle: string;

before(() => {
  directory = mkdtempSync(path.join(tmpdir(), "pal-bundle-"));
  execFileSync(process.execPath, [path.join(EXTENSION, "esbuild.mjs"), `--to=${directory}`]);
  bundle = readFileSync(path.join(directory, "extension.js"), "utf8");
});

after(() => {
  rmSync(directory, { recursive: true, force: true });
});

test("the bundle needs nothing but VS Code and Node, is small, and names no place on the machine that built it", () => {
  const { inputs, outputs } = JSON.parse(readFileSync(path.join(directory, "meta.json"), "utf8")) as Metafile;
  const outside = Object.values(outputs).flatMap((output) => output.imports.map((one) => one.path));
  const known = new Set(["vscode", ...builtinModules, ...builtinModules.map((name) => `node:${name}`)]);
  assert.ok(outside.includes("vscode"));
  assert.deepEqual(outside.filter((name) => !known.has(name)), []);
  const packages = Object.keys(inputs).map((name) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(name)?.[1]);
  assert.deepEqual([...new Set(packages.filter((name) => name !== undefined))], ["vscode-jsonrpc"]);
  const bytes = Buffer.byteLength(bundle);
  assert.ok(bytes < BYTES_MAX, `${bytes} bytes`);
  assert.ok(!bundle.includes(EXTENSION));
});

test("the bundle looks at the clock before it loads anything, so that what it tells of its activation is all of it", () => {
  const done: string[] = [];
  const clock = { now: () => done.push("clock") };
  const require = (name: string): never => {
    done.push(name);
    throw new Error("enough");
  };
  const run = compileFunction(bundle, ["module", "exports", "require", "performance"]) as (...given: unknown[]) => void;
  assert.throws(() => {
    run({ exports: {} }, {}, require, clock);
  }, /enough/);
  assert.equal(done[0], "clock");
  assert.equal(done.length, 2);
});
