/** Small extensions of our own beside Palace's: they ask the editor from inside, as other extensions would. */

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import * as path from "node:path";

import { EXTENSION } from "./installed.ts";

export interface OwnExtension {
  readonly name: string;
  /** CommonJS, with `activate`; it runs once the editor has started. Its environment names the world in PALACE_WORLD. */
  readonly code: string;
}

/**
 * Packs it below `parent`, and returns its VSIX: newer workbenches run no extensions but installed ones.
 *
 * @throws Error with what vsce wrote.
 */
export function packed({ name, code }: OwnExtension, parent: string): string {
  const directory = path.join(parent, `own-${name}`);
  mkdirSync(directory);
  const manifest = {
    name,
    publisher: "test",
    version: "0.0.1",
    description: "Asks the editor for what Palace gives it.",
    repository: "none",
    engines: { vscode: "^1.90.0" },
    main: "./main.js",
    activationEvents: ["onStartupFinished"],
  };
  writeFileSync(path.join(directory, "package.json"), JSON.stringify(manifest));
  writeFileSync(path.join(directory, "main.js"), code);
  const file = path.join(directory, `${name}.vsix`);
  const words = ["package", "--no-dependencies", "--allow-missing-repository", "--skip-license", "--out", file];
  execFileSync(process.execPath, [path.join(EXTENSION, "node_modules/@vscode/vsce/vsce"), ...words], { cwd: directory, stdio: "pipe" });
  return file;
}
