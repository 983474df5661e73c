/**
 * What the editor loads when it starts: names of commands, documents and of what the chat is given. What is behind them
 * is loaded later (src/ui/loader.ts), so that no start waits for it. Everything else is in src/core (without VS Code) and
 * src/ui.
 */

import { begunAt } from "./core/begun"; // first: what comes after it is what loading costs

import * as vscode from "vscode";

import { registerChat } from "./ui/chat";
import { registerCommands, registerDocuments } from "./ui/entrances";
import { Loader } from "./ui/loader";

/** How long loading everything above took, in milliseconds. */
const loadMs = performance.now() - begunAt;

let loader: Loader | undefined;

/** Returns at once; the daemon is looked for after the editor has started. */
export function activate(context: vscode.ExtensionContext): void {
  const calledAt = performance.now();
  const log = vscode.window.createOutputChannel("Palace", { log: true });
  const made = new Loader(context, log);
  const registering: Readonly<Record<string, () => vscode.Disposable>> = {
    commands: () => registerCommands(made, context, log),
    documents: () => registerDocuments(made),
    chat: () => registerChat(log, { tool: async () => (await made.onUse()).tool, servers: async () => (await made.following()).servers }),
  };
  for (const [what, register] of Object.entries(registering)) {
    try {
      context.subscriptions.push(register());
    } catch (error) {
      // One part less is better than none.
      log.error(`The ${what} cannot be registered: ${String(error)}`);
    }
  }
  // They are disposed of in this order: who asks, then who answers, and the log when nobody writes any more.
  context.subscriptions.push(made, log);
  loader = made;
  void made.begin();
  // What the editor tells counts its waiting for other extensions, too. test/workbench/measure.ts reads this line.
  log.info(`Activated in ${(loadMs + performance.now() - calledAt).toFixed(1)} ms, ${loadMs.toFixed(1)} of them to load.`);
}

/** The editor disposes of the parts meanwhile, and waits for this a few seconds. */
export async function deactivate(): Promise<void> {
  await loader?.installationEnded();
}
