import assert from "node:assert/strict";
import { builtinModules } from "node:module";
import { test } from "node:test";

import * as esbuild from "esbuild";

const BYTES_MAX = 450_000;

test("the bundle needs nothing but VS Code and Node, is small, and names no place on the machine that built it", async () => {
  const built = await esbuild.build({
    absWorkingDir: new URL("../..", import.meta.url).pathname,
    entryPoints: ["src/extension.ts"],
    bundle: true,
    external: ["vscode"],
    platform: "node",
    target: "node20",
    format: "cjs",
    minify: true,
    metafile: true,
    write: false,
    logLevel: "silent",
  });
  const outside = Object.values(built.metafile.outputs).flatMap((output) => output.imports.map((one) => one.path));
  const known = new Set(["vscode", ...builtinModules, ...builtinModules.map((name) => `node:${name}`)]);
  assert.ok(outside.includes("vscode"));
  assert.deepEqual(outside.filter((name) => !known.has(name)), []);
  const packages = Object.keys(built.metafile.inputs).map((name) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(name)?.[1]);
  assert.deepEqual([...new Set(packages.filter((name) => name !== undefined))], ["vscode-jsonrpc"]);
  const [bundle] = built.outputFiles;
  assert.ok(bundle && bundle.contents.length < BYTES_MAX, `${bundle?.contents.length ?? 0} bytes`);
  assert.ok(!bundle.text.includes(process.cwd()));
});
