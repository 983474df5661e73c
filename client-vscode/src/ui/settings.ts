/** The settings of the extension; every default stands in package.json. */

import * as vscode from "vscode";

export interface Settings {
  readonly python: string;
  readonly dataDirectory: string;
  readonly startDaemon: boolean;
  readonly recall: { readonly scope: "all" | "project"; readonly limit: number; readonly delayMs: number };
  readonly statusBar: boolean;
  readonly sessionsLimit: number;
}

export function readSettings(): Settings {
  const section = vscode.workspace.getConfiguration("palace");
  const read = <T>(name: string, otherwise: T): T => section.get<T>(name, otherwise);
  return {
    python: read("python", "").trim(),
    dataDirectory: read("dataDirectory", "").trim(),
    startDaemon: read("startDaemon", true),
    recall: { scope: read("recall.scope", "all"), limit: read("recall.limit", 20), delayMs: read("recall.delayMs", 120) },
    statusBar: read("statusBar", true),
    sessionsLimit: read("sessions.limit", 200),
  };
}
