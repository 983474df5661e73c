/** The interpreter that the Python extension uses in this window, where that extension is installed. */

import * as path from "node:path";

import * as vscode from "vscode";

/** The parts of its exported API that are used; all of them may be missing in some version. */
interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath?(): { readonly path?: string };
    resolveEnvironment?(environment: unknown): Promise<{ readonly executable?: { readonly uri?: vscode.Uri } } | undefined>;
  };
}

export interface InterpreterOptions {
  /** Whether that extension is woken where it sleeps, as it does in a window without Python; it is by default. */
  readonly wakes?: boolean;
  readonly limitMs?: number;
}

/** It looks for all environments of the machine when it is woken. */
const LIMIT_MS = 15_000;

/**
 * The absolute path of the interpreter; empty where there is none, or where it is not told within `limitMs`.
 *
 * In a window that is not trusted it is none either: it often lies in the folder itself, and to ask it anything is to
 * run a program of that folder.
 */
export async function interpreter({ wakes = true, limitMs = LIMIT_MS }: InterpreterOptions = {}): Promise<string> {
  if (!vscode.workspace.isTrusted) return "";
  let limit: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    limit = setTimeout(resolve, limitMs, "");
  });
  try {
    const told = await Promise.race([asked(wakes), late]);
    return path.isAbsolute(told) ? told : "";
  } catch {
    return ""; // its failure is its own: there are other places to look
  } finally {
    clearTimeout(limit);
  }
}

async function asked(wakes: boolean): Promise<string> {
  const extension = vscode.extensions.getExtension<PythonApi | undefined>("ms-python.python");
  if (!extension || !(extension.isActive || wakes)) return "";
  const environments = (extension.isActive ? extension.exports : await extension.activate())?.environments;
  const chosen = environments?.getActiveEnvironmentPath?.();
  if (!chosen) return "";
  const resolved = await environments?.resolveEnvironment?.(chosen);
  return resolved?.executable?.uri?.fsPath ?? chosen.path ?? "";
}
