/** What every part of the editor's side is given. */

import type * as vscode from "vscode";

import type { Palace } from "../core/palace";
import type { Settings } from "./settings";

/** What a command does; of what the editor gives it only the first is used. */
export type RunCommand = (argument: unknown) => unknown;

export interface Parts {
  readonly palace: Palace;
  readonly log: vscode.LogOutputChannel;
  /** Read anew at each use, so that changes apply at once. */
  readonly settings: () => Settings;
  readonly context: vscode.ExtensionContext;
  /** Says what a command of package.json does, which is registered since the activation; ends when it is disposed of. */
  readonly command: (name: string, run: RunCommand) => vscode.Disposable;
  /**
   * The daemon's command line up to its subcommand: `[python, "-m", "palace_daemon", "--data-dir", directory]`.
   *
   * @throws PalaceError `notRunning` where no Python with the package was found.
   */
  readonly commandLine: () => Promise<readonly string[]>;
}
