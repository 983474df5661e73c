/** Wires the parts together; everything else is in src/core (without VS Code) and src/ui. */

import { begunAt } from "./core/begun"; // first: what comes after it is what loading costs

import * as vscode from "vscode";

import { inWords } from "./core/errors";
import { registerAgents } from "./ui/agents";
import { registerChat } from "./ui/chat";
import { registerDaemon, startDaemon } from "./ui/daemon";
import { registerExchanges } from "./ui/exchanges";
import { installationEnded } from "./ui/installDaemon";
import { registerNotes } from "./ui/notes";
import { registerPalette } from "./ui/palette";
import type { Parts } from "./ui/parts";
import { registerSessions } from "./ui/sessions";
import { readSettings } from "./ui/settings";
import { registerStatus } from "./ui/status";

const PARTS: Readonly<Record<string, (parts: Parts) => vscode.Disposable>> = {
  daemon: registerDaemon,
  exchanges: registerExchanges,
  palette: registerPalette,
  sessions: registerSessions,
  status: registerStatus,
  notes: registerNotes,
  agents: registerAgents,
  chat: registerChat,
};

/** How long loading everything above took, in milliseconds. */
const loadMs = performance.now() - begunAt;

/** Returns at once; the daemon is looked for after the editor has started. */
export function activate(context: vscode.ExtensionContext): void {
  const calledAt = performance.now();
  const log = vscode.window.createOutputChannel("Palace", { log: true });
  const palace = startDaemon(context, log, readSettings);
  const parts: Parts = { palace, log, settings: readSettings, context, commandLine: () => palace.commandLine() };
  for (const [name, register] of Object.entries(PARTS)) {
    try {
      context.subscriptions.push(register(parts));
    } catch (error) {
      // One part less is better than none.
      log.error(`the part ${name} failed: ${inWords(error)}`);
    }
  }
  // They are disposed of in this order: who asks, then who answers, and the log when nobody writes any more.
  context.subscriptions.push(palace, log);
  setImmediate(() => {
    palace.begin();
  });
  // What the editor tells counts its waiting for other extensions, too. test/workbench/measure.ts reads this line.
  log.info(`Activated in ${(loadMs + performance.now() - calledAt).toFixed(1)} ms, ${loadMs.toFixed(1)} of them to load.`);
}

/** The editor disposes of the parts meanwhile, and waits for this a few seconds. */
export async function deactivate(): Promise<void> {
  await installationEnded();
}
