import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { build } from "esbuild";

import type { HostReport } from "../host/index.ts";
import { CodeServer } from "./support/codeServer.ts";
import { EXTENSION } from "./support/installed.ts";
import { until } from "./support/waiting.ts";

test("inside the extension host the extension is active, and all that package.json promises is registered", async () => {
  const { outputFiles } = await build({
    bundle: true,
    entryPoints: [path.join(EXTENSION, "test/host/index.ts")],
    external: ["vscode"],
    format: "cjs",
    platform: "node",
    target: "node20",
    write: false,
  });
  const server = await CodeServer.start("host", { beside: { name: "reporter", code: outputFiles[0]?.text ?? "" } });
  try {
    await server.scenario("host", async () => {
      await server.open();
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
