/** What must be there before a scenario: the workbench, the extension's package, Palace itself. */

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";

export const EXTENSION = path.resolve(import.meta.dirname, "../../..");
export const REPOSITORY = path.dirname(EXTENSION);
/** Ignored by git: logs and screenshots. */
export const OUT = path.join(EXTENSION, "out");

/** As scripts/workbench.mjs prints it. */
export interface Installed {
  readonly node: string;
  /** code-server's program, for `node`. */
  readonly entry: string;
  /** The version of VS Code that PALACE_VSCODE chose, for instance 1.139. */
  readonly vscode: string;
  readonly codeServer: string;
  readonly chromium: string;
}

/** Installs the workbench where that was not done yet. */
export function installed(): Installed {
  const told = execFileSync(process.execPath, [path.join(EXTENSION, "scripts/workbench.mjs"), "--json"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(told) as Installed;
}

/** The newest VSIX that `npm run package` made. */
export function vsix(): string {
  const found = [EXTENSION, OUT, path.join(EXTENSION, "dist")]
    .filter((directory) => existsSync(directory))
    .flatMap((directory) => readdirSync(directory).map((name) => path.join(directory, name)))
    .filter((file) => file.endsWith(".vsix"))
    .sort((one, other) => statSync(other).mtimeMs - statSync(one).mtimeMs);
  const [newest] = found;
  if (!newest) throw new Error("there is no VSIX: run `npm run package` in client-vscode first");
  return newest;
}

/** The Python that has palace-daemon: the repository's own environment. PALACE_PYTHON names another. */
export function python(): string {
  const found = process.env.PALACE_PYTHON ?? path.join(REPOSITORY, ".venv", "bin", "python");
  if (!existsSync(found)) throw new Error(`there is no ${found}: run \`make setup\` in the repository first`);
  return found;
}

/** The installed embedding models, shared with this user's own Palace: they are read only. */
export function models(): string {
  const { PALACE_MODELS, XDG_CACHE_HOME } = process.env;
  return PALACE_MODELS ?? path.join(XDG_CACHE_HOME ?? path.join(homedir(), ".cache"), "palace", "models");
}
