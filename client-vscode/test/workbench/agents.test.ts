import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import { after, before, test } from "node:test";

import { CodeServer } from "./support/codeServer.ts";
import { until } from "./support/waiting.ts";
import type { Workbench } from "./support/workbench.ts";

let server: CodeServer;
let window: Workbench;

before(async () => {
  server = await CodeServer.start("agents");
  window = await server.open();
  await window.untilStatus(/\d/);
});

after(async () => {
  await server.end();
});

test("an agent is connected once a person has seen what changes, and Undo gives its settings back", async () => {
  await server.scenario("agents", async () => {
    const [settings, servers] = [".claude/settings.json", ".claude.json"].map((name) => path.join(server.world.home, name));
    assert.ok(settings && servers);
    mkdirSync(path.dirname(settings), { recursive: true });
    writeFileSync(settings, '{"model": "opus"}\n');
    await window.command("Palace: Connect an Agent…");
    await until("Claude Code is listed", async () => (await window.rows()).some((row) => row.label === "Claude Code"), { seen: () => window.rows() });
    const row = (await window.rows()).find((one) => one.label === "Claude Code");
    assert.equal(row?.description, "not connected");
    await window.screenshot("agents");
    await window.input.fill("Claude Code");
    await window.page.keyboard.press("Enter");
    await window.untilDialog(/Connect Claude Code to Palace\?[^]*Changed: ~\/\.claude\/settings\.json/);
    await window.screenshot("agents-asked");
    await window.pressDialog("Show the Changes");
    await window.untilNotification(/Connect Claude Code to Palace\?/);
    await until("the changes are shown", async () => (await window.editorText()).includes("hook session-start"), { seen: () => window.editorText() });
    await window.screenshot("agents-changes");
    assert.equal(readFileSync(settings, "utf8"), '{"model": "opus"}\n');
    await window.pressNotification(/Connect Claude Code to Palace\?/, "Connect");
    await window.untilNotification(/Claude Code is connected to Palace\. Start a new session/);
    assert.ok(existsSync(servers));
    await window.screenshot("agents-connected");
    await window.pressNotification(/is connected to Palace/, "Undo");
    await window.untilNotification(/Claude Code is not connected to Palace any more/);
    assert.equal(readFileSync(settings, "utf8"), '{"model": "opus"}\n');
    assert.ok(!existsSync(servers));
  });
});
