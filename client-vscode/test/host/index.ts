/** An extension that runs beside ours, in the same host: test/workbench/host.test.ts bundles, installs and judges it. */

import { renameSync, writeFileSync } from "node:fs";
import * as path from "node:path";

import * as vscode from "vscode";

const ID = "palace.palace-recall";

/** What is told to the test outside. */
export interface HostReport {
  readonly isActive: boolean;
  /** Commands that package.json promises and nobody registered. */
  readonly missingCommands: readonly string[];
  /** The extension's language model tools; undefined where the editor knows none. */
  readonly tools: readonly string[] | undefined;
  readonly error: string;
}

/** The editor calls this once it has started. */
export async function activate(): Promise<void> {
  let told: HostReport;
  try {
    told = await report();
  } catch (error) {
    told = { isActive: false, missingCommands: [], tools: undefined, error: String(error) };
  }
  const file = path.join(process.env.PALACE_WORLD ?? "", "host.json");
  writeFileSync(`${file}.new`, JSON.stringify(told));
  renameSync(`${file}.new`, file);
}

async function report(): Promise<HostReport> {
  const extension = vscode.extensions.getExtension(ID);
  if (!extension) throw new Error(`${ID} is not there`);
  await extension.activate();
  const { contributes } = extension.packageJSON as { contributes: { commands: readonly { command: string }[] } };
  const known = new Set(await vscode.commands.getCommands(true));
  const missingCommands = contributes.commands.map((one) => one.command).filter((name) => !known.has(name));
  const { lm } = vscode as unknown as { lm?: { tools?: readonly { name: string }[] } }; // newer than the declared API
  const tools = lm?.tools?.map((one) => one.name).filter((name) => name.startsWith("palace"));
  return { isActive: extension.isActive, missingCommands, tools, error: "" };
}
