/** Wires the parts together; everything else is in src/core (without VS Code) and src/ui. */

import * as vscode from "vscode";

import { registerAgents } from "./ui/agents";
import { registerChat } from "./ui/chat";
import { registerDaemon, startDaemon } from "./ui/daemon";
import { registerExchanges } from "./ui/exchanges";
import { registerNotes } from "./ui/notes";
import { registerPalette } from "./ui/palette";
import type { Parts } from "./ui/parts";
import { registerSessions } from "./ui/sessions";
import { readSettings } from "./ui/settings";
import { registerStatus } from "./ui/status";

/** Returns at once; the daemon is looked for after the editor has started. */
export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Palace", { log: true });
  const palace = startDaemon(context, log, readSettings);
  const parts: Parts = { palace, log, settings: readSettings, context, commandLine: () => palace.commandLine() };
  context.subscriptions.push(log, palace);
  for (const register of [
    registerDaemon,
    registerExchanges,
    registerPalette,
    registerSessions,
    registerStatus,
    registerNotes,
    registerAgents,
    registerChat,
  ]) {
    context.subscriptions.push(register(parts));
  }
  setImmediate(() => {
    palace.begin();
  });
}
