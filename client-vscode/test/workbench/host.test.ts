import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { build, type BuildOptions } from "esbuild";

import type { HostReport } from "../host/index.ts";
import { CodeServer } from "./support/codeServer.ts";
import { EXTENSION, OUT } from "./support/installed.ts";
import { until } from "./support/waiting.ts";

test("inside the extension host the extension is active, and all that package.json promises is registered", async () => {
  const bundled = path.join(OUT, "host", "index.js");
  const common: BuildOptions = { bundle: true, external: ["vscode"], platform: "node", target: "node20", format: "cjs" };
  await build({ ...common, entryPoints: [path.join(EXTENSION, "test/host/index.ts")], outfile: bundled });
  await build({ ...common, entryPoints: [path.join(EXTENSION, "src/extension.ts")], outfile: path.join(EXTENSION, "dist/extension.js"), minify: true });
  const server = await CodeServer.start("host", { isPlain: true });
  try {
    await server.scenario("host", async () => {
      const address = (file: string): string => `vscode-remote://127.0.0.1:${server.port}${file}`;
      await server.open({ payload: [["extensionDevelopmentPath", address(EXTENSION)], ["extensionTestsPath", address(bundled)]] });
      const file = path.join(server.world.root, "host.json");
      await until("the report is there", () => existsSync(file), { limitMs: 60_000 });
      const told = JSON.parse(readFileSync(file, "utf8")) as HostReport;
      assert.equal(told.error, "");
      assert.ok(told.isActive);
      assert.deepEqual(told.missingCommands, []);
      assert.deepEqual(told.tools, ["palace_recall"]);
    });
  } finally {
    await server.end();
  }
});
