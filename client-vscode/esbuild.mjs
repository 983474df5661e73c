// Bundles the extension into dist/extension.js; --watch goes on, --dev keeps names and adds a source map.
import * as esbuild from "esbuild";

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
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
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
  await esbuild.build(options);
}
