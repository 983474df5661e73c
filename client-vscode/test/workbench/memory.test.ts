import assert from "node:assert/strict";
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { after, before, test } from "node:test";

import { CodeServer } from "./support/codeServer.ts";
import { until } from "./support/waiting.ts";
import type { Row, Workbench } from "./support/workbench.ts";

let server: CodeServer;
let window: Workbench;

before(async () => {
  server = await CodeServer.start("memory", { settings: { "workbench.colorTheme": "Default Light Modern" } });
  window = await server.open();
  await window.untilStatus(/^28$/);
});

after(async () => {
  await server.end();
});

/** Asks again until a row fits: what was just written may not be stored yet. */
async function untilRecalled(question: string, fits: (row: Row) => boolean): Promise<Row> {
  await window.command("Palace: Recall…");
  let isOdd = false;
  return await until(`${question} is recalled`, async () => {
    isOdd = !isOdd;
    await window.input.fill(isOdd ? question : `${question} `);
    await until("an answer", async () => (await window.rows()).length > 0 && !(await window.quickInputState()).isBusy);
    return (await window.rows()).find(fits);
  }, { seen: () => window.rows() });
}

test("the view lists projects, sessions and exchanges, and opens an exchange", async () => {
  await server.scenario("view", async () => {
    await window.showView();
    await until("the project of the window is open", async () => (await window.tree()).some((row) => row.level === 2), { seen: () => window.tree() });
    const [project, session] = await window.tree();
    assert.equal(project?.label, "tidepool");
    assert.match(project.description, /6 sessions|7 sessions/);
    assert.ok(session?.label);
    const areListed = async (): Promise<boolean> => (await window.tree()).some((row) => row.level === 3);
    await until("its exchanges are listed", async () => {
      if (!(await areListed())) await window.treeRow(session.label).click(); // a refresh of the view may swallow a click
      await until("they are there", areListed, { limitMs: 5_000 });
      return true;
    }, { seen: () => window.tree() });
    const exchange = (await window.tree()).find((row) => row.level === 3);
    assert.ok(exchange);
    await until("the exchange opens", async () => {
      if ((await window.tabs()).length === 0) await window.treeRow(exchange.label).click(); // a refresh of the view may swallow a click
      await until("its text is there", async () => (await window.editorText()).includes("## Asked"), { limitMs: 5_000 });
      return true;
    }, { seen: () => window.editorText() });
    assert.ok((await window.editorText()).includes(exchange.label.slice(0, 30)));
    await window.screenshot("view");
  });
});

test("a selection that is remembered is recalled", async () => {
  await server.scenario("remember", async () => {
    const note = "The tide gauge of Brest sends its readings every ten minutes.";
    await window.openFile("notes.md");
    await window.goToLine(4, true);
    await window.command("Palace: Remember Selection…");
    await until("it asks for the project", async () => (await window.rows()).some((row) => row.label.includes("tidepool")), { seen: () => window.rows() });
    await window.screenshot("remember-project");
    await window.page.keyboard.press("Enter");
    await until("it asks for tags", async () => (await window.quickInputState()).title.includes("Tags"), { seen: () => window.quickInputState() });
    await window.input.fill("gauge, decision");
    await window.screenshot("remember-tags");
    await window.page.keyboard.press("Enter");
    await window.untilNotification(/Palace remembers it in tidepool/);
    const row = await untilRecalled("how often does Brest send its readings?", (one) => one.label.startsWith(note.slice(0, 30)));
    assert.match(row.description, /[Nn]ote/);
    await window.screenshot("remember-recalled");
    await window.closeQuickInput();
    await window.clearNotifications();
  });
});

test("what is forgotten after a last question is not found any more", async () => {
  await server.scenario("forget", async () => {
    const title = "Three nights in a row";
    await untilRecalled("why is the database locked at night?", (one) => one.isFocused && one.label.startsWith(title));
    const line = window.page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first();
    await window.pressRowButton(line, "More actions", async () => (await window.rows()).some((one) => one.label === "Forget…"));
    await window.screenshot("recall-actions");
    await window.input.fill("Forget");
    await window.page.keyboard.press("Enter");
    await window.untilDialog(/Forget .* for good\?/);
    await window.screenshot("forget");
    await window.pressDialog("Forget");
    await window.untilNotification(/Palace forgot 1 exchange/);
    await until("the row is gone", async () => (await window.isQuickInputOpen()) && !(await window.rows()).some((one) => one.label.startsWith(title)), { seen: () => window.rows() });
    await window.closeQuickInput();
    await window.clearNotifications();
  });
});

test("lines that an agent appends to its transcript are recalled while the editor is open", async () => {
  await server.scenario("appended", async () => {
    const directory = server.world.claudeDirectory;
    const name = readdirSync(directory).find((one) => one.startsWith("bd8ec9a1"));
    assert.ok(name);
    const file = path.join(directory, name);
    const last = JSON.parse(readFileSync(file, "utf8").trimEnd().split("\n").at(-1) ?? "") as Record<string, unknown>;
    const common = { ...pick(last, ["cwd", "sessionId", "version", "gitBranch"]), isSidechain: false, userType: "external" };
    const now = new Date().toISOString();
    const [asked, answered] = ["11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"];
    const question = "Which colour has the marmalade buoy at the north pier?";
    const lines = [
      { ...common, parentUuid: last.uuid ?? null, type: "user", message: { role: "user", content: question }, uuid: asked, timestamp: now },
      {
        ...common,
        parentUuid: asked,
        type: "assistant",
        message: { id: "msg_1", type: "message", role: "assistant", model: "claude-opus-4-6", stop_reason: "end_turn", content: [{ type: "text", text: "The marmalade buoy is striped in orange and white." }] },
        uuid: answered,
        timestamp: now,
      },
    ];
    appendFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const row = await untilRecalled("marmalade buoy", (one) => one.label.startsWith(question.slice(0, 30)));
    assert.match(row.detail, /orange and white/);
    await window.closeQuickInput();
  });
});

function pick(from: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, from[name]]));
}
