// Bundles the extension: dist/extension.js is what the editor loads when it starts, dist/parts/ what is loaded later. There
// is a file for each import() in the source, and one for what several of them share, so that no module is there twice.
//
//   node esbuild.mjs                  as it is packaged
//   node esbuild.mjs --dev            keeps names and adds source maps
//   node esbuild.mjs --watch          the same, and goes on
//   node esbuild.mjs --to=DIRECTORY   there instead, beside meta.json, which tells what is in which file
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

import * as esbuild from "esbuild";

const isWatching = process.argv.includes("--watch");
const isDev = isWatching || process.argv.includes("--dev");
const wanted = process.argv.find((word) => word.startsWith("--to="))?.slice("--to=".length);
const directory = path.resolve(import.meta.dirname, wanted ?? "dist");

/**
 * Takes the editor's API and Node's modules as they are: from an import, esbuild would copy each of their getters, hundreds
 * for the API, in every file, which is half of the time that the files take to load. And takes out imports of nothing:
 * esbuild writes one of its helpers into every file, also where none is used, and no module of ours does anything when run.
 */
function lightened(code) {
  const imports = /^import (\* as \w+|\{[^}]*\}) from ("vscode"|"node:[\w/]+");$/gm;
  return code.replace(/^import "\.\/[^"]*";$/gm, "").replace(imports, (_, names, module) => {
    const bound = names.startsWith("*") ? names.slice("* as ".length) : names.replaceAll(" as ", ": ");
    return `const ${bound} = require(${module});`;
  });
}

/** Editors load CommonJS, and esbuild splits only ES modules: they are made first, then turned into the other, one by one. */
const splitToCommonJs = {
  name: "split-to-commonjs",
  setup(build) {
    build.onEnd(async ({ errors, outputFiles, metafile }) => {
      if (errors.length > 0) return; // what was built before stays
      rmSync(path.join(directory, "parts"), { recursive: true, force: true });
      mkdirSync(path.join(directory, "parts"), { recursive: true });
      for (const file of outputFiles) {
        const { code } = await esbuild.transform(lightened(file.text), {
          platform: "node",
          target: "node20",
          format: "cjs",
          supported: { "dynamic-import": false }, // a plain require, which needs no other loader
          minify: !isDev,
          sourcemap: isDev ? "inline" : false,
        });
        writeFileSync(file.path, code);
      }
      if (wanted) writeFileSync(path.join(directory, "meta.json"), JSON.stringify(metafile));
    });
  },
};

const options = {
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/extension.ts"],
  outdir: directory,
  chunkNames: "parts/[name]-[hash]",
  bundle: true,
  splitting: true,
  external: ["vscode"],
  plugins: [splitToCommonJs],
  platform: "node",
  target: "node20",
  format: "esm",
  minifySyntax: !isDev,
  sourcemap: isDev ? "inline" : false,
  write: false,
  metafile: true,
  logLevel: "warning",
};

if (isWatching) await (await esbuild.context(options)).watch();
else await esbuild.build(options);
