/** The interpreter that the Python extension uses in this window, where that extension is installed. */

import * as vscode from "vscode";

/** The parts of its exported API that are used; all of them may be missing in some version. */
interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath?(): { readonly path?: string };
    resolveEnvironment?(environment: unknown): Promise<{ readonly executable?: { readonly uri?: vscode.Uri } } | undefined>;
  };
}

/**
 * The absolute path of the interpreter; empty where there is none.
 *
 * In a window that is not trusted it is none either: it often lies in the folder itself, and to ask it anything is to
 * run a program of that folder.
 */
export async function interpreter(): Promise<string> {
  if (!vscode.workspace.isTrusted) return "";
  const extension = vscode.extensions.getExtension<PythonApi | undefined>("ms-python.python");
  if (!extension) return "";
  try {
    const environments = (extension.isActive ? extension.exports : await extension.activate())?.environments;
    const chosen = environments?.getActiveEnvironmentPath?.();
    if (!chosen) return "";
    const resolved = await environments?.resolveEnvironment?.(chosen);
    return resolved?.executable?.uri?.fsPath ?? chosen.path ?? "";
  } catch {
    return ""; // its failure is its own: there are other places to look
  }
}
