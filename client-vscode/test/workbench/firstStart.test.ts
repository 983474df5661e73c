import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";

import { CodeServer } from "./support/codeServer.ts";
import { until } from "./support/waiting.ts";

test("on a machine without transcripts the status bar, the view and Recall say that nothing is stored, and where Palace looks", async () => {
  const server = await CodeServer.start("first-start", { hasTranscripts: false });
  try {
    await server.scenario("first-start", async () => {
      const window = await server.open();
      await window.untilStatus(/^0\b/);
      await window.showView();
      await until("the empty view invites", async () => (await window.welcome()).includes("No sessions yet"), { seen: () => window.welcome() });
      assert.match(await window.welcome(), /Mine Now[^]*connect an agent[^]*where Palace looks/);
      await window.screenshot("first-start-view");

      await window.command("Palace: Recall…");
      const row = await until("Recall says that it is empty", async () => (await window.rows()).find((one) => one.label === "Nothing is stored yet"), {
        seen: () => window.rows(),
      });
      assert.match(row.detail, /Enter shows/);
      await window.screenshot("first-start-recall");
      await window.page.keyboard.press("Enter");
      await until("the status opens", async () => (await window.quickInputState()).title.includes("status"), { seen: () => window.quickInputState() });
      await window.screenshot("first-start-status");
      await window.input.fill("claude");
      await until("it names where it looks", async () => (await window.rows()).some((one) => `${one.label} ${one.description} ${one.detail}`.includes("Claude Code")), {
        seen: () => window.rows(),
      });
    });
  } finally {
    await server.end();
  }
});

test("without a Python that has the package the editor says so, offers to install it, and goes on when the setting names one", async () => {
  const bare = "/usr/bin/python3";
  assert.ok(existsSync(bare), "the scenario needs a Python without palace-daemon");
  const server = await CodeServer.start("no-python", { machine: { "palace.python": "" } });
  try {
    await server.scenario("no-python", async () => {
      const window = await server.open();
      await window.untilStatus(/not installed/);
      await window.untilNotification(/palace-daemon|Python/);
      await window.showView();
      await until("the view offers to install", async () => (await window.welcome()).includes("Install the Daemon"), { seen: () => window.welcome() });
      await window.screenshot("no-python-view");
      await window.command("Palace: Recall…");
      await until("Recall offers to install", async () => (await window.rows()).some((row) => row.label.startsWith("Install Palace")), {
        seen: () => window.rows(),
      });
      await window.screenshot("no-python-recall");
      await window.closeQuickInput();

      await window.changeSettings(server.world, { "palace.python": bare }, "machine");
      await window.untilStatus(/does not run/);
      await window.untilNotification(/palace\.python names \/usr\/bin\/python3/);
      await window.screenshot("no-python-setting");
      await window.changeSettings(server.world, { "palace.python": server.world.python }, "machine");
      await window.untilStatus(/^\d+\b/);
    });
  } finally {
    await server.end();
  }
});
