// Bundles the extension into dist/extension.js; --watch goes on, --dev keeps names and adds a source map.
import * as esbuild from "esbuild";

const isDev = process.argv.includes("--dev") || process.argv.includes("--watch");
const options = {
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  external: ["vscode"],
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
  await esbuild.build(options);
}
