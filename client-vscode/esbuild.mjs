// Bundles the extension into dist/extension.js; --watch goes on, --dev keeps names and adds a source map. With
// --to=DIRECTORY the bundle is written there instead, beside meta.json, which tells what is in it.
import { writeFileSync } from "node:fs";
import path from "node:path";

import * as esbuild from "esbuild";

const directory = process.argv.find((word) => word.startsWith("--to="))?.slice("--to=".length);
const isDev = process.argv.includes("--dev") || process.argv.includes("--watch");
/**
 * Takes the editor's API over once. Left alone, esbuild copies its hundreds of getters for each of our files that imports
 * it, which is half of the time that the bundle takes to load.
 */
const oneApi = {
  name: "one-api",
  setup(build) {
    build.onResolve({ filter: /^vscode$/ }, ({ namespace }) =>
      namespace === "api" ? { path: "vscode", external: true } : { path: "vscode", namespace: "api" },
    );
    build.onLoad({ filter: /.*/, namespace: "api" }, () => ({ contents: 'export * from "vscode";' }));
  },
};

const options = {
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/extension.ts"],
  outfile: path.join(directory ?? "dist", "extension.js"),
  metafile: directory !== undefined,
  bundle: true,
  plugins: [oneApi],
  platform: "node",
  target: "node20",
  format: "cjs",
  minify: !isDev,
  sourcemap: isDev,
  logLevel: "warning",
};

if (process.argv.includes("--watch")) {
  await (await esbuild.context(options)).watch();
} else {
  const { metafile } = await esbuild.build(options);
  if (metafile) writeFileSync(path.join(directory, "meta.json"), JSON.stringify(metafile));
}
