/** Takes the README's pictures in the real workbench: `npm run pictures`. */

import { copyFileSync } from "node:fs";
import * as path from "node:path";

import { CodeServer } from "./support/codeServer.ts";
import { EXTENSION, OUT } from "./support/installed.ts";
import { until } from "./support/waiting.ts";
import type { Workbench } from "./support/workbench.ts";

const EXCHANGES = /^28$/;

async function main(): Promise<void> {
  await picture("recall-dark", "Default Dark Modern", recall);
  await picture("exchange-light", "Default Light Modern", exchange);
}

async function picture(name: string, theme: string, arrange: (window: Workbench) => Promise<void>): Promise<void> {
  const settings = { "workbench.colorTheme": theme, "editor.fontSize": 13 };
  const server = await CodeServer.start("pictures", { keepsProject: true, settings });
  try {
    const window = await server.open();
    await window.untilStatus(EXCHANGES);
    await arrange(window);
    await until("the editor is at rest", async () => !(await window.page.locator(".part.statusbar").innerText()).includes("Activating"));
    await window.screenshot(name);
    copyFileSync(path.join(OUT, "screenshots", `${name}.png`), path.join(EXTENSION, "media", `${name}.png`));
  } finally {
    await server.end();
  }
}

async function recall(window: Workbench): Promise<void> {
  await window.openFile("notes.md");
  await window.command("Palace: Recall…");
  await window.input.fill("why is the database locked at night?");
  await until("it answers", async () => (await window.rows())[0]?.label.startsWith("Three nights"), { seen: () => window.rows() });
}

async function exchange(window: Workbench): Promise<void> {
  await window.showView();
  await window.treeRow("tidepool").click();
  const title = "Find and fix the database is locked";
  await until("its sessions are listed", async () => (await window.tree()).some((row) => row.label.startsWith(title)), { seen: () => window.tree() });
  await window.treeRow(title).click();
  await until("its exchanges are listed", async () => (await window.tree()).some((row) => row.level === 3), { seen: () => window.tree() });
  await window.treeRow("Three nights in a row").click();
  await until("the exchange opens", async () => (await window.editorText()).includes("## Asked"), { seen: () => window.editorText() });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
